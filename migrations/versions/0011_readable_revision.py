"""Processes can read the revision of the schema, to say whether it is theirs.

Revision ID: 0011
Revises: 0010
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("GRANT SELECT ON alembic_version TO change_freeze_app, change_freeze_identity, change_freeze_worker")


def downgrade() -> None:
    op.execute("REVOKE SELECT ON alembic_version FROM change_freeze_app, change_freeze_identity, change_freeze_worker")
