"""Freezes that rules of exceptions do not pass, and schedules of them; the open exceptions by rules, by branch.

Every pass looks for such exceptions. The index is of no row yet, and is read from a table of some thousand.

Revision ID: 0055
Revises: 0054
"""

from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, whose default is constant and writes no row, and the index."""
    for table in ("freezes", "schedules"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN exception_rules_allowed BOOLEAN NOT NULL DEFAULT true")
    op.execute(
        "CREATE INDEX ix_exceptions_open_by_rule ON exceptions (branch_id) WHERE rule_name IS NOT NULL"
        " AND decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX ix_exceptions_open_by_rule")
    for table in ("freezes", "schedules"):
        op.execute(f"ALTER TABLE {table} DROP COLUMN exception_rules_allowed")
