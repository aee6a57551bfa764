"""Stops that are written and not seen yet are found by an index.

Revision ID: 0058
Revises: 0057
"""

from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None

_UNSEEN = "WHERE stop_context IS NOT NULL AND stop_in_force_at IS NULL"


def upgrade() -> None:
    """Add two partial indexes of few rows, read from tables of one row for each repository at most."""
    op.execute(
        f"CREATE INDEX ix_frozen_branch_rulesets_unseen_stop ON frozen_branch_rulesets (repository_id) {_UNSEEN}"
    )
    op.execute(f"CREATE INDEX ix_organization_stops_unseen_stop ON organization_stops (id) {_UNSEEN}")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX ix_frozen_branch_rulesets_unseen_stop")
    op.execute("DROP INDEX ix_organization_stops_unseen_stop")
