"""GitHub's log of webhooks is read: one row says how far.

Webhooks that were sent before are left to the full resync. The API requests a reading when it starts; only jobs read.

Revision ID: 0039
Revises: 0038
"""

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE webhook_log (
    id SMALLINT NOT NULL DEFAULT 1,
    since TIMESTAMP WITH TIME ZONE NOT NULL,
    read_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_id BIGINT,
    last_at TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_webhook_log PRIMARY KEY (id),
    CONSTRAINT ck_webhook_log_one_row CHECK (id = 1)
);
INSERT INTO webhook_log (since, read_at, due_at) VALUES (now(), now(), now());
"""
RIGHTS = """
GRANT SELECT, UPDATE (due_at, attempts) ON webhook_log TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE ON webhook_log TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the table, from now on."""
    op.execute(TABLE)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Remove the table."""
    op.execute("DROP TABLE webhook_log")
