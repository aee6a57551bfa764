"""The encrypted values of a mail are named as such.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE mails RENAME COLUMN sealed TO encrypted_values")


def downgrade() -> None:
    op.execute("ALTER TABLE mails RENAME COLUMN encrypted_values TO sealed")
