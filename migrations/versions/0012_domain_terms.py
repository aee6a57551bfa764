"""Tables and columns of the domain are called by the terms of the field.

Revision ID: 0012
Revises: 0011
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

COLUMNS = (
    ("freezes", "partly_covered", "targets_pending"),
    ("schedules", "overlaps_looked_for_at", "overlaps_checked_at"),
)
INDEXES = (
    ("ix_freezes_partly_covered", "ix_freezes_targets_pending"),
    ("pk_landings", "pk_frozen_branch_pushes"),
    ("ix_landings_organization_id", "ix_frozen_branch_pushes_organization_id"),
    ("uq_landings_commit", "uq_frozen_branch_pushes_commit"),
)
CONSTRAINTS = (
    ("fk_landings_organization_id", "fk_frozen_branch_pushes_organization_id"),
    ("fk_landings_branch_id", "fk_frozen_branch_pushes_branch_id"),
)


def upgrade() -> None:
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.execute("ALTER TABLE landings RENAME TO frozen_branch_pushes")
    for old, new in INDEXES:
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
    for old, new in CONSTRAINTS:
        op.execute(f"ALTER TABLE frozen_branch_pushes RENAME CONSTRAINT {old} TO {new}")


def downgrade() -> None:
    for old, new in CONSTRAINTS:
        op.execute(f"ALTER TABLE frozen_branch_pushes RENAME CONSTRAINT {new} TO {old}")
    for old, new in INDEXES:
        op.execute(f"ALTER INDEX {new} RENAME TO {old}")
    op.execute("ALTER TABLE frozen_branch_pushes RENAME TO landings")
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")
