"""What only processes of release 1.1.0 read or wrote goes.

Revision ID: 0057
Revises: 0056
"""

from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None

_LEASE_UNIT = """
CREATE TABLE lease_unit (
    id SMALLINT DEFAULT 1 NOT NULL,
    is_check BOOLEAN NOT NULL,
    CONSTRAINT pk_lease_unit PRIMARY KEY (id),
    CONSTRAINT ck_lease_unit_one_row CHECK (id = 1)
);
INSERT INTO lease_unit (is_check) VALUES (true);
GRANT SELECT ON lease_unit TO change_freeze_app;
GRANT SELECT, UPDATE ON lease_unit TO change_freeze_worker;
"""


def upgrade() -> None:
    """Drop a table, three columns and an index: no table is rewritten."""
    op.execute("DROP TABLE lease_unit")
    op.execute("ALTER TABLE lease_holders DROP COLUMN leases_checks")
    op.execute("ALTER TABLE head_checks DROP COLUMN tracked")
    op.execute("ALTER TABLE installations DROP COLUMN served_at")
    op.execute("DROP INDEX ix_repositories_full_name")


def downgrade() -> None:
    """Add them again, as processes of 1.1.0 expect them."""
    op.execute("CREATE INDEX ix_repositories_full_name ON repositories (organization_id, lower(owner || '/' || name))")
    op.execute("ALTER TABLE installations ADD COLUMN served_at TIMESTAMP WITH TIME ZONE")
    op.execute("ALTER TABLE head_checks ADD COLUMN tracked BOOLEAN DEFAULT true NOT NULL")
    op.execute("ALTER TABLE lease_holders ADD COLUMN leases_checks BOOLEAN DEFAULT true NOT NULL")
    op.execute(_LEASE_UNIT)
