"""When GitHub last reported a change of the rules of a branch, so that an earlier reading of them soon counts no more.

The former release writes no report, and reads every branch again as before.

Revision ID: 0041
Revises: 0040
"""

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE branch_enforcement ADD COLUMN rules_reported_at TIMESTAMP WITH TIME ZONE")


def downgrade() -> None:
    """Remove the column."""
    op.execute("ALTER TABLE branch_enforcement DROP COLUMN rules_reported_at")
