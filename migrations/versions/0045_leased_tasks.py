"""Tasks that run again and again are leased work, and the API sees when each was last done.

A periodic task that has no lease keeps its row as it is.

Revision ID: 0045
Revises: 0044
"""

from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns of leases, and let the API read the rows."""
    op.execute(
        "ALTER TABLE periodic_tasks ADD COLUMN due_at TIMESTAMP WITH TIME ZONE, ADD COLUMN lease_token TEXT, "
        "ADD COLUMN lease_holder INTEGER, ADD COLUMN lease_until TIMESTAMP WITH TIME ZONE, "
        "ADD COLUMN attempts INTEGER DEFAULT 0 NOT NULL, ADD COLUMN last_error_code TEXT, "
        "ADD COLUMN last_error_message TEXT"
    )
    op.execute("GRANT SELECT ON periodic_tasks TO change_freeze_app")


def downgrade() -> None:
    """Drop the columns, and the rows that only they make sense of."""
    op.execute("REVOKE SELECT ON periodic_tasks FROM change_freeze_app")
    op.execute("DELETE FROM periodic_tasks WHERE due_at IS NOT NULL")
    op.execute(
        "ALTER TABLE periodic_tasks DROP COLUMN due_at, DROP COLUMN lease_token, DROP COLUMN lease_holder, "
        "DROP COLUMN lease_until, DROP COLUMN attempts, DROP COLUMN last_error_code, DROP COLUMN last_error_message"
    )
