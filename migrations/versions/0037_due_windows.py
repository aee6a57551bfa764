"""The due windows of one organisation are found by an index, however many windows have passed.

Building it blocks writes of windows for about a second per million rows.

Revision ID: 0037
Revises: 0036
"""

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.execute("""
        CREATE INDEX ix_occurrences_unsettled ON occurrences (organization_id, starts_at)
        WHERE started_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL
    """)


def downgrade() -> None:
    """Remove the index."""
    op.execute("DROP INDEX ix_occurrences_unsettled")
