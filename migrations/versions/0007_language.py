"""Tables and columns named after what they hold.

Revision ID: 0007
Revises: 0006
"""

from alembic import op
from sqlalchemy import text

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = {"chores": "periodic_tasks", "attempts": "throttled_attempts"}
INDEXES = {
    "pk_chores": "pk_periodic_tasks",
    "pk_attempts": "pk_throttled_attempts",
    "ix_attempts_subject": "ix_throttled_attempts_subject",
    "ix_attempts_at": "ix_throttled_attempts_at",
}
COLUMNS = {
    ("installations", "examination"): "status_version",
    ("signing_keys", "sealed_private_key"): "encrypted_private_key",
}
TASKS = {"tidy": "purge_expired", "full_pass": "full_resync"}


def upgrade() -> None:
    for old, new in TABLES.items():
        op.rename_table(old, new)
    for old, new in INDEXES.items():
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
    for (table, old), new in COLUMNS.items():
        op.alter_column(table, old, new_column_name=new)
    for old, new in TASKS.items():
        op.execute(text("UPDATE periodic_tasks SET name = :new WHERE name = :old").bindparams(new=new, old=old))


def downgrade() -> None:
    for old, new in TASKS.items():
        op.execute(text("UPDATE periodic_tasks SET name = :old WHERE name = :new").bindparams(new=new, old=old))
    for (table, old), new in COLUMNS.items():
        op.alter_column(table, new, new_column_name=old)
    for old, new in INDEXES.items():
        op.execute(f"ALTER INDEX {new} RENAME TO {old}")
    for old, new in TABLES.items():
        op.rename_table(new, old)
