"""Write intents say under which leases writes are sent, and until when they may arrive.

Revision ID: 0034
Revises: 0033
"""

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.execute("ALTER TABLE head_checks ADD COLUMN intent_leases TEXT[] NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE head_checks ADD COLUMN intent_until TIMESTAMP WITH TIME ZONE")


def downgrade() -> None:
    """Remove the columns."""
    op.execute("ALTER TABLE head_checks DROP COLUMN intent_leases, DROP COLUMN intent_until")
