"""Workers and sweepers write heartbeats, which the API reads.

Revision ID: 0010
Revises: 0009
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE lease_holders ADD COLUMN kind TEXT, ADD COLUMN beat_at TIMESTAMP WITH TIME ZONE, "
        "ADD COLUMN stopped_at TIMESTAMP WITH TIME ZONE"
    )
    op.execute("GRANT SELECT ON lease_holders TO change_freeze_app")


def downgrade() -> None:
    op.execute("REVOKE SELECT ON lease_holders FROM change_freeze_app")
    op.execute("ALTER TABLE lease_holders DROP COLUMN kind, DROP COLUMN beat_at, DROP COLUMN stopped_at")
