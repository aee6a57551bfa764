"""Clients that people connect with OAuth: grants, their codes and refresh tokens, and the look-up of a grant.

A grant is looked up on each request of its access tokens, so that what ends it takes effect at once. Writes of a grant
hold a shared lock on it, which its revocation waits for.

Revision ID: 0018
Revises: 0017
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE oauth_clients (
    client_id TEXT NOT NULL,
    document JSONB,
    fetched_at TIMESTAMP WITH TIME ZONE,
    fresh_until TIMESTAMP WITH TIME ZONE,
    blocked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_oauth_clients PRIMARY KEY (client_id)
);
CREATE TABLE oauth_grants (
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_name TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT[] NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_used_at TIMESTAMP WITH TIME ZONE,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revoked_why TEXT,
    CONSTRAINT pk_oauth_grants PRIMARY KEY (id),
    CONSTRAINT fk_oauth_grants_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_oauth_grants_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_grants_client_id FOREIGN KEY (client_id) REFERENCES oauth_clients (client_id)
);
CREATE INDEX ix_oauth_grants_user_id ON oauth_grants (user_id, created_at);
CREATE INDEX ix_oauth_grants_organization_id ON oauth_grants (organization_id, created_at);
CREATE INDEX ix_oauth_grants_client_id ON oauth_grants (client_id);
CREATE INDEX ix_oauth_grants_expires_at ON oauth_grants (expires_at);
CREATE TABLE oauth_codes (
    code_hash BYTEA NOT NULL,
    organization_id TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_oauth_codes PRIMARY KEY (code_hash),
    CONSTRAINT fk_oauth_codes_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_codes_grant_id FOREIGN KEY (grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
);
CREATE INDEX ix_oauth_codes_grant_id ON oauth_codes (grant_id);
CREATE INDEX ix_oauth_codes_expires_at ON oauth_codes (expires_at);
CREATE TABLE oauth_refresh_tokens (
    token_hash BYTEA NOT NULL,
    organization_id TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    issued_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_oauth_refresh_tokens PRIMARY KEY (token_hash),
    CONSTRAINT fk_oauth_refresh_tokens_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_refresh_tokens_grant_id FOREIGN KEY (grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
);
CREATE INDEX ix_oauth_refresh_tokens_grant_id ON oauth_refresh_tokens (grant_id);
CREATE INDEX ix_oauth_refresh_tokens_expires_at ON oauth_refresh_tokens (expires_at);
ALTER TABLE device_authorizations ADD COLUMN resource TEXT, ADD COLUMN scopes TEXT[];
"""

# An organisation sees its grants and can end them; only the role for people creates grants, codes and tokens.
RIGHTS = """
ALTER TABLE oauth_grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE oauth_grants FORCE ROW LEVEL SECURITY;
ALTER TABLE oauth_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE oauth_codes FORCE ROW LEVEL SECURITY;
ALTER TABLE oauth_refresh_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE oauth_refresh_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON oauth_grants TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_person ON oauth_grants TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY every_person ON oauth_codes TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY every_person ON oauth_refresh_tokens TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
GRANT SELECT, UPDATE (revoked_at, revoked_why) ON oauth_grants TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON oauth_clients, oauth_grants, oauth_codes, oauth_refresh_tokens
    TO change_freeze_worker, change_freeze_identity;
"""

FUNCTIONS = """
CREATE FUNCTION find_oauth_grant(wanted text)
RETURNS TABLE (
    grant_id text, user_id text, user_name text, client_id text, client_name text, scopes text[],
    expires_at timestamptz, revoked_at timestamptz, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT g.id, u.id, u.name, g.client_id, g.client_name, g.scopes, g.expires_at,
           coalesce(g.revoked_at, c.blocked_at), m.role, o.id,
           (SELECT json_agg(json_build_array(p.source, p.plan, p.until))::text FROM plan_grants p
            WHERE p.organization_id = o.id),
           o.deleted_at, clock_timestamp()
    FROM oauth_grants g
    JOIN oauth_clients c ON c.client_id = g.client_id
    JOIN users u ON u.id = g.user_id
    JOIN organizations o ON o.id = g.organization_id
    LEFT JOIN memberships m ON m.user_id = g.user_id AND m.organization_id = g.organization_id
    WHERE g.id = wanted
$$;

CREATE FUNCTION lock_oauth_grant(wanted text)
RETURNS TABLE (
    grant_id text, user_id text, user_name text, client_id text, client_name text, scopes text[],
    expires_at timestamptz, revoked_at timestamptz, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', g.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('member', g.organization_id, g.user_id)),
           pg_advisory_xact_lock_shared(authorization_lock('oauth_grant', g.id))
    FROM oauth_grants g WHERE g.id = wanted;
    SELECT * FROM find_oauth_grant(wanted)
$$;

ALTER FUNCTION find_oauth_grant(text) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_oauth_grant(text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_oauth_grant(text), lock_oauth_grant(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_oauth_grant(text), lock_oauth_grant(text) TO change_freeze_app, change_freeze_identity;
"""

LOCK_FOR_REVOCATION = """
CREATE OR REPLACE FUNCTION lock_for_revocation() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'organizations' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('organization', OLD.id));
    ELSIF TG_TABLE_NAME = 'sessions' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('session', OLD.id));
    ELSIF EXISTS (SELECT FROM organizations o WHERE o.id = OLD.organization_id AND o.deleted_at IS NOT NULL) THEN
        NULL; -- nothing is written any more, and a deletion would need a lock for each key and member
    ELSIF TG_TABLE_NAME = 'memberships' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('member', OLD.organization_id, OLD.user_id));
    ELSIF TG_TABLE_NAME = 'api_keys' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('api_key', OLD.id));
    ELSIF TG_TABLE_NAME = 'api_key_secrets' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('api_key', OLD.api_key_id));{more}
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
"""
OF_GRANTS = """
    ELSIF TG_TABLE_NAME = 'oauth_grants' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('oauth_grant', OLD.id));"""
TRIGGER = """
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF revoked_at ON oauth_grants FOR EACH ROW
    WHEN (OLD.revoked_at IS DISTINCT FROM NEW.revoked_at) EXECUTE FUNCTION lock_for_revocation();
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(RIGHTS)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")
    op.execute(LOCK_FOR_REVOCATION.format(more=OF_GRANTS))
    op.execute(TRIGGER)


def downgrade() -> None:
    op.execute("ALTER TABLE device_authorizations DROP COLUMN resource, DROP COLUMN scopes")
    op.execute("DROP FUNCTION lock_oauth_grant(text), find_oauth_grant(text)")
    op.execute("DROP TABLE oauth_refresh_tokens, oauth_codes, oauth_grants, oauth_clients")
    op.execute(LOCK_FOR_REVOCATION.format(more=""))
