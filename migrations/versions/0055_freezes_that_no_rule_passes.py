"""Freezes that rules of exceptions do not pass, and schedules of them.

Revision ID: 0055
Revises: 0054
"""

from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; a default that is constant writes no row."""
    for table in ("freezes", "schedules"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN exception_rules_allowed BOOLEAN NOT NULL DEFAULT true")


def downgrade() -> None:
    """Drop them."""
    for table in ("freezes", "schedules"):
        op.execute(f"ALTER TABLE {table} DROP COLUMN exception_rules_allowed")
