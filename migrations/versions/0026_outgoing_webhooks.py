"""Outgoing webhooks: endpoints, and the messages for them.

Revision ID: 0026
Revises: 0025
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE webhook_endpoints (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT[] NOT NULL,
    remind_before INTEGER[] NOT NULL,
    encrypted_secret BYTEA,
    encrypted_previous_secret BYTEA,
    previous_secret_ends_at TIMESTAMP WITH TIME ZONE,
    enabled BOOLEAN NOT NULL,
    disabled_reason TEXT,
    disabled_at TIMESTAMP WITH TIME ZONE,
    failing_since TIMESTAMP WITH TIME ZONE,
    last_failure_at TIMESTAMP WITH TIME ZONE,
    created_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_webhook_endpoints PRIMARY KEY (id),
    CONSTRAINT fk_webhook_endpoints_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_webhook_endpoints_page ON webhook_endpoints (organization_id, created_at, id);
CREATE TABLE webhook_messages (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    event TEXT NOT NULL,
    entry_id TEXT,
    sequence BIGINT,
    body TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempt_count INTEGER DEFAULT 0 NOT NULL,
    last_attempt_at TIMESTAMP WITH TIME ZONE,
    last_status INTEGER,
    last_answer TEXT,
    delivered_at TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_webhook_messages PRIMARY KEY (id),
    CONSTRAINT fk_webhook_messages_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_webhook_messages_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints (id)
);
CREATE INDEX ix_webhook_messages_page ON webhook_messages (endpoint_id, created_at, id);
CREATE INDEX ix_webhook_messages_due ON webhook_messages (endpoint_id, due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX uq_webhook_messages_sequence ON webhook_messages (endpoint_id, sequence);
CREATE INDEX ix_webhook_messages_organization_id ON webhook_messages (organization_id);
CREATE INDEX ix_webhook_messages_created_at ON webhook_messages (created_at);
"""

# Pages change endpoints, and request attempts; only jobs send.
RIGHTS = """
ALTER TABLE webhook_endpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_endpoints FORCE ROW LEVEL SECURITY;
ALTER TABLE webhook_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON webhook_endpoints TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY own_organization ON webhook_messages TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON webhook_endpoints TO change_freeze_worker USING (true) WITH CHECK (true);
CREATE POLICY every_organization ON webhook_messages TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON webhook_endpoints TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE (due_at, attempts, delivered_at, last_error_code, last_error_message)
    ON webhook_messages TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoints, webhook_messages TO change_freeze_worker;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(RIGHTS)


def downgrade() -> None:
    op.execute("DROP TABLE webhook_messages, webhook_endpoints")
