"""Processes can read the revision of the schema, to say whether it is theirs.

Revision ID: 0009
Revises: 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("GRANT SELECT ON alembic_version TO change_freeze_app, change_freeze_identity, change_freeze_worker")


def downgrade() -> None:
    op.execute("REVOKE SELECT ON alembic_version FROM change_freeze_app, change_freeze_identity, change_freeze_worker")
