"""The freezes of a branch, also those that have ended, are found by an index.

Building it blocks writes of targets for about a second per million rows; reads and checks at GitHub go on.

Revision ID: 0032
Revises: 0031
"""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.execute("CREATE INDEX ix_freeze_targets_branch_id ON freeze_targets (branch_id)")


def downgrade() -> None:
    """Remove the index."""
    op.execute("DROP INDEX ix_freeze_targets_branch_id")
