"""Tables, columns and indexes are named after what they hold.

Revision ID: 0006
Revises: 0005
"""

from alembic import op
from sqlalchemy import text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = {
    "spendings": "github_api_usage",
    "chores": "periodic_tasks",
    "attempts": "throttled_attempts",
    "landings": "frozen_branch_pushes",
}
COLUMNS = {
    ("head_checks", "followed"): "tracked",
    ("head_checks", "doubtful"): "unconfirmed",
    ("watched_branches", "waiting_rank"): "deferred_rank",
    ("watched_branches", "look_again_at"): "reread_at",
    ("installations", "examination"): "status_version",
    ("signing_keys", "sealed_private_key"): "encrypted_private_key",
    ("freezes", "partly_covered"): "targets_pending",
    ("schedules", "overlaps_looked_for_at"): "overlaps_checked_at",
}
INDEXES = {
    "ix_head_checks_followed": "ix_head_checks_tracked",
    "ix_spendings_recent": "ix_github_api_usage_recent",
    "pk_spendings": "pk_github_api_usage",
    "pk_chores": "pk_periodic_tasks",
    "pk_attempts": "pk_throttled_attempts",
    "ix_attempts_subject": "ix_throttled_attempts_subject",
    "ix_attempts_at": "ix_throttled_attempts_at",
    "ix_freezes_partly_covered": "ix_freezes_targets_pending",
    "pk_landings": "pk_frozen_branch_pushes",
    "ix_landings_organization_id": "ix_frozen_branch_pushes_organization_id",
    "uq_landings_commit": "uq_frozen_branch_pushes_commit",
}
SEQUENCES = {"spendings_id_seq": "github_api_usage_id_seq"}
CONSTRAINTS = {
    ("frozen_branch_pushes", "fk_landings_organization_id"): "fk_frozen_branch_pushes_organization_id",
    ("frozen_branch_pushes", "fk_landings_branch_id"): "fk_frozen_branch_pushes_branch_id",
}
TASKS = {"tidy": "purge_expired", "full_pass": "full_resync"}


def upgrade() -> None:
    for old, new in TABLES.items():
        op.rename_table(old, new)
    for (table, old), new in COLUMNS.items():
        op.alter_column(table, old, new_column_name=new)
    for old, new in INDEXES.items():
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
    for old, new in SEQUENCES.items():
        op.execute(f"ALTER SEQUENCE {old} RENAME TO {new}")
    for (table, old), new in CONSTRAINTS.items():
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}")
    for old, new in TASKS.items():
        op.execute(text("UPDATE periodic_tasks SET name = :new WHERE name = :old").bindparams(new=new, old=old))


def downgrade() -> None:
    for old, new in TASKS.items():
        op.execute(text("UPDATE periodic_tasks SET name = :old WHERE name = :new").bindparams(new=new, old=old))
    for (table, old), new in CONSTRAINTS.items():
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {new} TO {old}")
    for old, new in SEQUENCES.items():
        op.execute(f"ALTER SEQUENCE {new} RENAME TO {old}")
    for old, new in INDEXES.items():
        op.execute(f"ALTER INDEX {new} RENAME TO {old}")
    for (table, old), new in COLUMNS.items():
        op.alter_column(table, new, new_column_name=old)
    for old, new in TABLES.items():
        op.rename_table(new, old)
