"""The database records in which cluster it last ran, so that the service notices when it was restored.

Revision ID: 0031
Revises: 0030
"""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE database_identity (
    id SMALLINT NOT NULL DEFAULT 1,
    system_identifier BIGINT NOT NULL,
    database_oid BIGINT NOT NULL,
    table_oid BIGINT NOT NULL,
    timeline INTEGER NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    noticed_at TIMESTAMP WITH TIME ZONE,
    difference TEXT,
    shown_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_database_identity PRIMARY KEY (id),
    CONSTRAINT ck_database_identity_one_row CHECK (id = 1)
);
CREATE VIEW present_database AS
SELECT c.system_identifier, d.oid::bigint AS database_oid, 'database_identity'::regclass::oid::bigint AS table_oid,
       ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer AS timeline
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
INSERT INTO database_identity (system_identifier, database_oid, table_oid, timeline, seen_at)
SELECT system_identifier, database_oid, table_oid, timeline, clock_timestamp() FROM present_database;
"""
RIGHTS = """
GRANT SELECT ON database_identity, present_database TO change_freeze_app;
GRANT SELECT, UPDATE ON database_identity TO change_freeze_worker;
GRANT SELECT ON present_database TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the table, what it is compared with, and the cluster in which the migration runs."""
    op.execute(TABLE)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Remove the table."""
    op.execute("DROP VIEW present_database")
    op.execute("DROP TABLE database_identity")
