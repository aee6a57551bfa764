"""Columns are named after what they hold: the encrypted values of a mail, the start of an occurrence.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMNS = {("mails", "sealed"): "encrypted_values", ("occurrences", "begun_at"): "started_at"}


def upgrade() -> None:
    for (table, old), new in COLUMNS.items():
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def downgrade() -> None:
    for (table, old), new in COLUMNS.items():
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")
