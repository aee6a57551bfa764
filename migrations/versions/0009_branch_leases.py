"""The lease of a branch names the process that holds it.

Revision ID: 0009
Revises: 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE watched_branches ADD COLUMN lease_holder INTEGER")


def downgrade() -> None:
    op.execute("ALTER TABLE watched_branches DROP COLUMN lease_holder")
