"""Windows are announced to a destination whenever it was added: it is not recorded any more since when.

Revision ID: 0025
Revises: 0024
"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE notification_destinations DROP COLUMN reminders_since")


def downgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE notification_destinations ADD COLUMN reminders_since TIMESTAMPTZ NOT NULL DEFAULT now()")
    op.execute("ALTER TABLE notification_destinations ALTER COLUMN reminders_since DROP DEFAULT")
    op.execute("GRANT UPDATE (reminders_since) ON notification_destinations TO change_freeze_app")
