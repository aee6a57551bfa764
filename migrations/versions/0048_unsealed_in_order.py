"""Entries that wait for their seal are read in the order of their ids, without sorting all that wait.

The new index replaces the one on the organisation alone, for the former release too. The table has what was written in
the last seconds, so that to build the index takes no time.

Revision ID: 0048
Revises: 0047
"""

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the index."""
    op.execute("CREATE INDEX ix_audit_unsealed_next ON audit_unsealed (organization_id, entry_id)")
    op.execute("DROP INDEX ix_audit_unsealed_organization_id")


def downgrade() -> None:
    """Replace it back."""
    op.execute("CREATE INDEX ix_audit_unsealed_organization_id ON audit_unsealed (organization_id)")
    op.execute("DROP INDEX ix_audit_unsealed_next")
