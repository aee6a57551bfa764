"""Calendar feeds, and the look-up of a feed by the secret in its address.

Revision ID: 0019
Revises: 0018
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE calendar_feeds (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    schedule_id TEXT,
    repository_id TEXT,
    token_hash BYTEA NOT NULL,
    created_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_calendar_feeds PRIMARY KEY (id),
    CONSTRAINT fk_calendar_feeds_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_calendar_feeds_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_calendar_feeds_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id),
    CONSTRAINT fk_calendar_feeds_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
);
CREATE UNIQUE INDEX uq_calendar_feeds_token_hash ON calendar_feeds (token_hash);
CREATE INDEX ix_calendar_feeds_organization_id ON calendar_feeds (organization_id, created_at, id);
CREATE INDEX ix_calendar_feeds_user_id ON calendar_feeds (user_id);
CREATE INDEX ix_calendar_feeds_schedule_id ON calendar_feeds (schedule_id);
CREATE INDEX ix_calendar_feeds_repository_id ON calendar_feeds (repository_id);
"""
RIGHTS = """
ALTER TABLE calendar_feeds ENABLE ROW LEVEL SECURITY;
ALTER TABLE calendar_feeds FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON calendar_feeds TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON calendar_feeds TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (revoked_at) ON calendar_feeds TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON calendar_feeds TO change_freeze_worker;
"""

# A feed is found as long as its creator is a member, whatever became of its row.
FUNCTION = """
CREATE FUNCTION find_calendar_feed(hash bytea)
RETURNS TABLE (feed_id text, organization_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.id, o.id
    FROM calendar_feeds f
    JOIN organizations o ON o.id = f.organization_id
    JOIN memberships m ON m.organization_id = f.organization_id AND m.user_id = f.user_id
    WHERE f.token_hash = hash AND f.revoked_at IS NULL AND o.deleted_at IS NULL
$$;
ALTER FUNCTION find_calendar_feed(bytea) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_calendar_feed(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_calendar_feed(bytea) TO change_freeze_app;
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(RIGHTS)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its function
    op.execute(FUNCTION)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    op.execute("DROP FUNCTION find_calendar_feed(bytea)")
    op.execute("DROP TABLE calendar_feeds")
