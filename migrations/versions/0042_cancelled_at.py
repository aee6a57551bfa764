"""When a window was taken from the plan, so that a calendar shows as cancelled only what it has shown before.

The former release fills it in by the default.

Revision ID: 0042
Revises: 0041
"""

from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of rows that exist it is the time of the upgrade."""
    op.execute("ALTER TABLE cancelled_windows ADD COLUMN cancelled_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now()")


def downgrade() -> None:
    """Remove the column."""
    op.execute("ALTER TABLE cancelled_windows DROP COLUMN cancelled_at")
