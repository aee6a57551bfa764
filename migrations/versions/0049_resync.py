"""Each installation is read again in rounds of its own, at the pace that its share of the quota allows.

The indexes are of small tables: installations, and checks, of which the largest deployment has some ten thousand.

Revision ID: 0049
Revises: 0048
"""

from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add where each round stands; processes of the former release go on requesting everything at once."""
    op.execute(
        "ALTER TABLE installations ADD COLUMN resync_due_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
        "ADD COLUMN resync_after BIGINT DEFAULT 0 NOT NULL, ADD COLUMN resync_began_at TIMESTAMP WITH TIME ZONE, "
        "ADD COLUMN resync_urgent BOOLEAN DEFAULT false NOT NULL"
    )
    op.execute("CREATE INDEX ix_installations_resync ON installations (resync_due_at)")
    op.execute("CREATE INDEX ix_checks_installation_id ON checks (installation_id, id)")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX ix_checks_installation_id")
    op.execute("DROP INDEX ix_installations_resync")
    op.execute(
        "ALTER TABLE installations DROP COLUMN resync_due_at, DROP COLUMN resync_after, DROP COLUMN resync_began_at, "
        "DROP COLUMN resync_urgent"
    )
