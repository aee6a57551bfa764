"""Columns and tables of the reconciler are called by the terms of the field.

Revision ID: 0006
Revises: 0005
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

COLUMNS = (
    ("head_checks", "followed", "tracked"),
    ("head_checks", "doubtful", "unconfirmed"),
    ("watched_branches", "waiting_rank", "deferred_rank"),
    ("watched_branches", "look_again_at", "reread_at"),
)
INDEXES = (
    ("ix_head_checks_followed", "ix_head_checks_tracked"),
    ("ix_spendings_recent", "ix_github_api_usage_recent"),
    ("pk_spendings", "pk_github_api_usage"),
)


def upgrade() -> None:
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.execute("ALTER TABLE spendings RENAME TO github_api_usage")
    op.execute("ALTER SEQUENCE spendings_id_seq RENAME TO github_api_usage_id_seq")
    for old, new in INDEXES:
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")


def downgrade() -> None:
    for old, new in INDEXES:
        op.execute(f"ALTER INDEX {new} RENAME TO {old}")
    op.execute("ALTER SEQUENCE github_api_usage_id_seq RENAME TO spendings_id_seq")
    op.execute("ALTER TABLE github_api_usage RENAME TO spendings")
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")
