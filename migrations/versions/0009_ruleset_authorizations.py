"""Repositories record which GitHub administrator authorised the service to write their rulesets, and when.

Revision ID: 0009
Revises: 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE repositories
            ADD COLUMN rulesets_authorized_by TEXT,
            ADD COLUMN rulesets_authorized_at TIMESTAMP WITH TIME ZONE
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE repositories DROP COLUMN rulesets_authorized_by, DROP COLUMN rulesets_authorized_at")
