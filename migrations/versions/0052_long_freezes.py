"""Freezes of 28 days or more are found by their end: those that were in force in a range of time are looked for.

Others that were in force then started in the range, or less than 28 days before it, which `ix_freezes_page` finds. The
table is small: the organisation with the most has some thousand freezes, so the index is built in milliseconds.

Revision ID: 0052
Revises: 0051
"""

from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.execute(
        "CREATE INDEX ix_freezes_long ON freezes (organization_id, ended_at)"
        " WHERE ended_at - started_at >= interval '28 days'"
    )


def downgrade() -> None:
    """Drop the index."""
    op.execute("DROP INDEX ix_freezes_long")
