"""People, organisations and keys: passwords, sign-ins, mail, invitations, devices, and a role for what concerns people.

Revision ID: 0003
Revises: 0002
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = """
ALTER TABLE users
    ADD COLUMN password_hash TEXT,
    ADD COLUMN email_verified_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE sessions
    ADD COLUMN kind TEXT DEFAULT 'browser' NOT NULL,
    ADD COLUMN token_hash BYTEA,
    ADD COLUMN client TEXT DEFAULT '' NOT NULL,
    ADD COLUMN address TEXT DEFAULT '' NOT NULL,
    ADD COLUMN last_used_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN support_by TEXT,
    ADD COLUMN support_reason TEXT;
CREATE UNIQUE INDEX uq_sessions_token_hash ON sessions (token_hash);
ALTER TABLE signing_keys ADD COLUMN active_from TIMESTAMP WITH TIME ZONE;
ALTER TABLE organizations
    ADD COLUMN purged_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN withdrawal_due_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN withdrawal_lease_until TIMESTAMP WITH TIME ZONE,
    ADD COLUMN withdrawal_attempts INTEGER DEFAULT '0' NOT NULL;
CREATE INDEX ix_organizations_withdrawal ON organizations (withdrawal_due_at) WHERE withdrawal_due_at IS NOT NULL;
CREATE INDEX ix_organizations_deleted ON organizations (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
ALTER TABLE api_keys DROP COLUMN created_by;  -- nothing has written it yet
ALTER TABLE api_keys ADD COLUMN created_by JSONB;
"""

TABLES = """
CREATE TABLE invitations (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    email TEXT NOT NULL,
    role TEXT NOT NULL,
    invited_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    accepted_at TIMESTAMP WITH TIME ZONE,
    accepted_by TEXT,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_invitations PRIMARY KEY (id),
    CONSTRAINT fk_invitations_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_invitations_accepted_by FOREIGN KEY(accepted_by) REFERENCES users (id)
);
CREATE INDEX ix_invitations_organization_id ON invitations (organization_id, created_at);
CREATE INDEX ix_invitations_email ON invitations (email) WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE TABLE one_time_tokens (
    token_hash BYTEA NOT NULL,
    purpose TEXT NOT NULL,
    subject TEXT NOT NULL,
    organization_id TEXT,
    details JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_one_time_tokens PRIMARY KEY (token_hash),
    CONSTRAINT fk_one_time_tokens_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_one_time_tokens_subject ON one_time_tokens (purpose, subject);
CREATE INDEX ix_one_time_tokens_expires_at ON one_time_tokens (expires_at);
CREATE TABLE mails (
    id TEXT NOT NULL,
    organization_id TEXT,
    recipient TEXT NOT NULL,
    template TEXT NOT NULL,
    sealed BYTEA,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    sent_at TIMESTAMP WITH TIME ZONE,
    last_error TEXT,
    CONSTRAINT pk_mails PRIMARY KEY (id),
    CONSTRAINT fk_mails_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_mails_due ON mails (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE attempts (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_attempts PRIMARY KEY (id)
);
CREATE INDEX ix_attempts_subject ON attempts (kind, subject, at);
CREATE INDEX ix_attempts_at ON attempts (at);
CREATE TABLE device_authorizations (
    device_code_hash BYTEA NOT NULL,
    user_code TEXT NOT NULL,
    client_id TEXT NOT NULL,
    address TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    interval_seconds INTEGER NOT NULL,
    polled_at TIMESTAMP WITH TIME ZONE,
    decided_at TIMESTAMP WITH TIME ZONE,
    approved BOOLEAN,
    user_id TEXT,
    organization_id TEXT,
    consumed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_device_authorizations PRIMARY KEY (device_code_hash),
    CONSTRAINT fk_device_authorizations_user_id FOREIGN KEY(user_id) REFERENCES users (id),
    CONSTRAINT fk_device_authorizations_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_device_authorizations_user_code ON device_authorizations (user_code);
CREATE INDEX ix_device_authorizations_expires_at ON device_authorizations (expires_at);
"""

# The role for what concerns people and not one organisation: it sees everybody's memberships, and no freeze.
ROLES = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'change_freeze_identity') THEN
        CREATE ROLE change_freeze_identity NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of the cluster is being migrated at the same moment
END $$;
GRANT change_freeze_identity TO CURRENT_USER;
GRANT USAGE ON SCHEMA public TO change_freeze_identity;
"""

# Tables whose rows belong to one organisation, and what the application may do with those of its own.
RIGHTS = {"invitations": "SELECT, INSERT, UPDATE", "one_time_tokens": "SELECT, INSERT, UPDATE", "mails": "INSERT"}

# What the role for people may do, in every organisation.
IDENTITY = {
    "organizations": "SELECT, INSERT, UPDATE",
    "memberships": "SELECT, INSERT, UPDATE, DELETE",
    "invitations": "SELECT, INSERT, UPDATE",
    "one_time_tokens": "SELECT, INSERT, UPDATE, DELETE",
    "mails": "SELECT, INSERT, UPDATE",
    "idempotency_keys": "SELECT, INSERT, UPDATE, DELETE",
    "audit_entries": "SELECT, INSERT",
    "installations": "SELECT",
}
PEOPLE = """
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON users TO change_freeze_app
    USING (EXISTS (SELECT FROM memberships m WHERE m.user_id = users.id));
CREATE POLICY every_person ON users TO change_freeze_worker, change_freeze_identity USING (true) WITH CHECK (true);
GRANT SELECT (id, email, name, created_at, email_verified_at) ON users TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON users, sessions, signing_keys, attempts, device_authorizations
    TO change_freeze_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON attempts, device_authorizations TO change_freeze_worker;
GRANT SELECT ON chores TO change_freeze_identity;
ALTER TABLE device_authorizations ENABLE ROW LEVEL SECURITY;
ALTER TABLE device_authorizations FORCE ROW LEVEL SECURITY;
CREATE POLICY every_person ON device_authorizations TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
"""

# The audit is never changed nor removed, but with the data of an organisation that was deleted.
ERASING = """
GRANT DELETE ON audit_entries TO change_freeze_worker;
CREATE POLICY only_of_the_deleted ON audit_entries AS RESTRICTIVE FOR DELETE TO change_freeze_worker
    USING (EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL));
"""

FUNCTIONS = """
DROP FUNCTION find_session(text, text);
CREATE FUNCTION find_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_plan text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.id, u.id, coalesce(s.support_by, u.name), s.revoked_at, s.expires_at, s.support, m.role, o.id, o.plan,
           o.deleted_at,
           (SELECT count(*)::int FROM memberships x JOIN organizations y ON y.id = x.organization_id
            WHERE x.user_id = u.id AND y.deleted_at IS NULL),
           clock_timestamp()
    FROM sessions s
    JOIN users u ON u.id = s.user_id
    LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = $2 AND NOT s.support
    LEFT JOIN organizations o ON o.id = m.organization_id OR (s.support AND o.id = $2 AND o.id = s.organization_id)
    WHERE s.id = $1
$$;
CREATE FUNCTION find_sign_in(token bytea)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_plan text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.* FROM sessions s, find_session(s.id, s.organization_id) f WHERE s.token_hash = token
$$;
CREATE FUNCTION note_key_uses(keys text[], instants timestamptz[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH used AS (
        SELECT k.id, u.at FROM unnest(keys, instants) AS u (id, at) JOIN api_keys k ON k.id = u.id
        WHERE k.last_used_at IS NULL OR k.last_used_at < u.at
        ORDER BY k.id FOR NO KEY UPDATE OF k  -- everybody in the same order, so that none waits in a circle
    )
    UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.at) FROM used WHERE k.id = used.id
$$;
-- Gives an installation to the organisation that asks, unless another one has it: the only way to a row of nobody's.
CREATE FUNCTION claim_installation(installation bigint, account_name text, at timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH claimed AS (
        INSERT INTO installations AS i (id, organization_id, account, permissions, created_at)
        SELECT installation, own, account_name, '{}', at
        FROM nullif(current_setting('app.organization_id', true), '') own
        WHERE own IS NOT NULL
        ON CONFLICT (id) DO UPDATE SET organization_id = excluded.organization_id
            WHERE i.organization_id IS NULL OR i.organization_id = excluded.organization_id
        RETURNING i.id
    )
    SELECT EXISTS (SELECT FROM claimed)
$$;
ALTER FUNCTION find_session(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_sign_in(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION claim_installation(bigint, text, timestamptz) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION claim_installation(bigint, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION claim_installation(bigint, text, timestamptz) TO change_freeze_app;
ALTER FUNCTION note_key_uses(text[], timestamptz[]) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION note_key_uses(text[], timestamptz[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_key_uses(text[], timestamptz[]) TO change_freeze_app;
REVOKE ALL ON FUNCTION find_session(text, text), find_sign_in(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_session(text, text), find_sign_in(bytea) TO change_freeze_app, change_freeze_identity;
"""

BEFORE = """
DROP FUNCTION claim_installation(bigint, text, timestamptz);
DROP FUNCTION find_sign_in(bytea);
DROP FUNCTION find_session(text, text);
CREATE FUNCTION find_session(session_id text, organization text)
RETURNS TABLE (
    user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean, role text,
    organization_id text, organization_plan text, organization_deleted_at timestamptz, organization_count int,
    now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT u.id, u.name, s.revoked_at, s.expires_at, s.support, m.role, o.id, o.plan, o.deleted_at,
           (SELECT count(*)::int FROM memberships x WHERE x.user_id = u.id), clock_timestamp()
    FROM sessions s
    JOIN users u ON u.id = s.user_id
    LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = organization
    LEFT JOIN organizations o ON o.id = m.organization_id
    WHERE s.id = session_id
$$;
ALTER FUNCTION find_session(text, text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_session(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_session(text, text) TO change_freeze_app;
DROP POLICY own_organization ON users;
DROP POLICY every_person ON users;
ALTER TABLE users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE users DISABLE ROW LEVEL SECURITY;
REVOKE SELECT (id, email, name, created_at, email_verified_at) ON users FROM change_freeze_app;
DROP TABLE device_authorizations, attempts, mails, one_time_tokens, invitations;
DROP INDEX ix_organizations_deleted, ix_organizations_withdrawal;
DROP FUNCTION note_key_uses(text[], timestamptz[]);
ALTER TABLE api_keys DROP COLUMN created_by;
ALTER TABLE api_keys ADD COLUMN created_by TEXT CONSTRAINT fk_api_keys_created_by REFERENCES users (id);
ALTER TABLE organizations
    DROP COLUMN purged_at, DROP COLUMN withdrawal_due_at, DROP COLUMN withdrawal_lease_until,
    DROP COLUMN withdrawal_attempts;
DROP POLICY only_of_the_deleted ON audit_entries;
REVOKE DELETE ON audit_entries FROM change_freeze_worker;
ALTER TABLE signing_keys DROP COLUMN active_from;
ALTER TABLE sessions
    DROP COLUMN kind, DROP COLUMN token_hash, DROP COLUMN client, DROP COLUMN address, DROP COLUMN last_used_at,
    DROP COLUMN support_by, DROP COLUMN support_reason;
ALTER TABLE users DROP COLUMN password_hash, DROP COLUMN email_verified_at;
"""


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute(TABLES)
    op.execute(ROLES)
    for table, rights in RIGHTS.items():
        own = "organization_id = current_setting('app.organization_id', true)"
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_organization ON {table} TO change_freeze_app USING ({own}) WITH CHECK ({own})")
        op.execute(
            f"CREATE POLICY every_organization ON {table} TO change_freeze_worker USING (true) WITH CHECK (true)"
        )
        op.execute(f"GRANT {rights} ON {table} TO change_freeze_app")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO change_freeze_worker")
    for table, rights in IDENTITY.items():
        op.execute(f"CREATE POLICY every_person ON {table} TO change_freeze_identity USING (true) WITH CHECK (true)")
        op.execute(f"GRANT {rights} ON {table} TO change_freeze_identity")
    op.execute(PEOPLE)
    op.execute(ERASING)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    for table, rights in IDENTITY.items():
        if table not in RIGHTS:
            op.execute(f"DROP POLICY every_person ON {table}")
            op.execute(f"REVOKE {rights} ON {table} FROM change_freeze_identity")
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")
    op.execute(BEFORE)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")
    op.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM change_freeze_identity")
    op.execute("REVOKE ALL ON SCHEMA public FROM change_freeze_identity")
