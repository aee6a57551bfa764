"""What the compatibility API has to know later: the user that a client named, and where an exception was granted.

Revision ID: 0020
Revises: 0019
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; they are empty in rows that exist."""
    op.execute("ALTER TABLE freezes ADD COLUMN claimed_by TEXT")
    op.execute("ALTER TABLE exceptions ADD COLUMN decided_through TEXT")


def downgrade() -> None:
    """Drop the columns."""
    op.execute("ALTER TABLE exceptions DROP COLUMN decided_through")
    op.execute("ALTER TABLE freezes DROP COLUMN claimed_by")
