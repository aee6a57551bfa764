"""Slack: workspaces of organisations, people's Slack users, and channels.

Revision ID: 0022
Revises: 0021
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE slack_connections (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    team_id TEXT NOT NULL,
    team_name TEXT NOT NULL,
    bot_user_id TEXT NOT NULL,
    scopes TEXT[] NOT NULL,
    encrypted_tokens BYTEA,
    connected_by JSONB NOT NULL,
    connected_at TIMESTAMP WITH TIME ZONE NOT NULL,
    lost_at TIMESTAMP WITH TIME ZONE,
    lost_why TEXT,
    removed_at TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_slack_connections PRIMARY KEY (id),
    CONSTRAINT fk_slack_connections_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX uq_slack_connections_organization_id ON slack_connections (organization_id)
    WHERE removed_at IS NULL;
CREATE UNIQUE INDEX uq_slack_connections_team_id ON slack_connections (team_id)
    WHERE removed_at IS NULL AND lost_at IS NULL;
CREATE INDEX ix_slack_connections_due ON slack_connections (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE slack_links (
    organization_id TEXT NOT NULL,
    team_id TEXT NOT NULL,
    slack_user_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_slack_links PRIMARY KEY (organization_id, team_id, slack_user_id),
    CONSTRAINT fk_slack_links_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_slack_links_user_id ON slack_links (organization_id, user_id);
CREATE TABLE slack_subscriptions (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    channel_name TEXT NOT NULL,
    events TEXT[] NOT NULL,
    patterns TEXT[],
    remind_before INTEGER[] NOT NULL,
    created_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    paused_at TIMESTAMP WITH TIME ZONE,
    paused_why TEXT,
    CONSTRAINT pk_slack_subscriptions PRIMARY KEY (id),
    CONSTRAINT fk_slack_subscriptions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX uq_slack_subscriptions_channel_id ON slack_subscriptions (organization_id, channel_id);
CREATE INDEX ix_slack_subscriptions_organization_id ON slack_subscriptions (organization_id, created_at, id);
"""
NAMES = ("slack_connections", "slack_links", "slack_subscriptions")

# A request of Slack names a workspace, and no organisation. A workspace that is connected again keeps its token, which
# an earlier disconnection would revoke.
FUNCTIONS = """
CREATE FUNCTION find_slack_connection(team text)
RETURNS TABLE (connection_id text, organization_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.id, c.organization_id
    FROM slack_connections c JOIN organizations o ON o.id = c.organization_id
    WHERE c.team_id = team AND c.removed_at IS NULL AND c.lost_at IS NULL AND o.deleted_at IS NULL
$$;
CREATE FUNCTION keep_slack_token(team text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM slack_connections WHERE team_id = team AND removed_at IS NOT NULL
$$;
ALTER FUNCTION find_slack_connection(text) OWNER TO change_freeze_worker;
ALTER FUNCTION keep_slack_token(text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_slack_connection(text), keep_slack_token(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_slack_connection(text), keep_slack_token(text) TO change_freeze_app;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for name in NAMES:
        op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
        mine = "organization_id = current_setting('app.organization_id', true)"
        op.execute(f"CREATE POLICY own_organization ON {name} TO change_freeze_app USING ({mine}) WITH CHECK ({mine})")
        op.execute(f"CREATE POLICY every_organization ON {name} TO change_freeze_worker USING (true) WITH CHECK (true)")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO change_freeze_app, change_freeze_worker")
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    op.execute("DROP FUNCTION find_slack_connection(text), keep_slack_token(text)")
    for name in NAMES:
        op.execute(f"DROP TABLE {name}")
