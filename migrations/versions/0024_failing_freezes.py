"""Since when branches of a freeze fail, and when it was recorded that its enforcement is late.

Revision ID: 0024
Revises: 0023
"""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; they are empty in rows that exist."""
    op.execute("ALTER TABLE freezes ADD COLUMN failing_since TIMESTAMP WITH TIME ZONE")
    op.execute("ALTER TABLE freezes ADD COLUMN late_at TIMESTAMP WITH TIME ZONE")
    op.execute("CREATE INDEX ix_freezes_failing_since ON freezes (id) WHERE failing_since IS NOT NULL")


def downgrade() -> None:
    """Drop the columns."""
    op.execute("ALTER TABLE freezes DROP COLUMN late_at, DROP COLUMN failing_since")
