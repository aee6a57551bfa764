"""The plan of an organisation is computed from grants, which the look-up of a credential returns.

Plans other than the default become grants of an operator without an end. Row-level security does not except the owner
of the tables, so it is suspended for the statement that reads them. Persons who had a trial are kept without an
organisation, so that the purge of one keeps them.

Revision ID: 0016
Revises: 0015
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE plan_grants (
    organization_id TEXT NOT NULL,
    source TEXT NOT NULL,
    reference TEXT DEFAULT '' NOT NULL,
    plan TEXT NOT NULL,
    until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    announced_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_plan_grants PRIMARY KEY (organization_id, source, reference),
    CONSTRAINT fk_plan_grants_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_plan_grants_trials ON plan_grants (until) WHERE source = 'trial' AND announced_at IS NULL;
CREATE TABLE used_trials (
    person_hash BYTEA NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_used_trials PRIMARY KEY (person_hash)
);
"""

GRANT_MANUAL = """
INSERT INTO plan_grants (organization_id, source, plan, created_at)
SELECT id, 'manual', plan, now() FROM organizations WHERE plan <> 'free' AND purged_at IS NULL;
ALTER TABLE organizations DROP COLUMN plan;
"""

# The API starts trials; operators grant plans as the role for people, jobs as that for every organisation.
RIGHTS = """
ALTER TABLE plan_grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE plan_grants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON plan_grants TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true) AND source = 'trial');
CREATE POLICY every_organization ON plan_grants TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON plan_grants TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON plan_grants TO change_freeze_worker, change_freeze_identity;
GRANT SELECT, INSERT ON used_trials TO change_freeze_app;
GRANT SELECT, INSERT, DELETE ON used_trials TO change_freeze_worker;
"""

DROP_FUNCTIONS = """
DROP FUNCTION lock_session(text, text), lock_api_key(bytea), find_sign_in(bytea), find_session(text, text),
    find_api_key(bytea);
"""

GRANTS_OF_ORGANIZATION = """
    (SELECT json_agg(json_build_array(g.source, g.plan, g.until))::text FROM plan_grants g
     WHERE g.organization_id = o.id)"""

FUNCTIONS = """
CREATE FUNCTION find_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, {column} text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.id, k.name, k.organization_id, k.scopes, k.expires_at, k.revoked_at, s.ends_at, {value}, o.deleted_at,
           clock_timestamp()
    FROM api_key_secrets s
    JOIN api_keys k ON k.id = s.api_key_id
    JOIN organizations o ON o.id = k.organization_id
    WHERE s.secret_hash = secret
$$;

CREATE FUNCTION find_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, {column} text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.id, u.id, coalesce(s.support_by, u.name), s.revoked_at, s.expires_at, s.support, m.role, o.id, {value},
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
    role text, organization_id text, {column} text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.* FROM sessions s, find_session(s.id, s.organization_id) f WHERE s.token_hash = token
$$;

CREATE FUNCTION lock_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, {column} text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', s.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('api_key', s.api_key_id))
    FROM api_key_secrets s WHERE s.secret_hash = secret;
    SELECT * FROM find_api_key(secret)
$$;

CREATE FUNCTION lock_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, {column} text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN organization IS NOT NULL THEN
               pg_advisory_xact_lock_shared(authorization_lock('organization', organization))
           END,
           CASE WHEN organization IS NOT NULL THEN
               pg_advisory_xact_lock_shared(authorization_lock('member', organization, s.user_id))
           END,
           pg_advisory_xact_lock_shared(authorization_lock('session', s.id))
    FROM sessions s WHERE s.id = $1;
    SELECT * FROM find_session($1, $2)
$$;

ALTER FUNCTION find_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION find_session(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_sign_in(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_session(text, text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_api_key(bytea), find_session(text, text), find_sign_in(bytea), lock_api_key(bytea),
    lock_session(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(bytea), find_session(text, text), find_sign_in(bytea), lock_api_key(bytea),
    lock_session(text, text) TO change_freeze_app;
GRANT EXECUTE ON FUNCTION find_session(text, text), find_sign_in(bytea), lock_api_key(bytea), lock_session(text, text)
    TO change_freeze_identity;
"""

# Of several grants in force the best one becomes the stored plan.
STORE_PLAN = """
ALTER TABLE organizations ADD COLUMN plan TEXT DEFAULT 'free' NOT NULL;
UPDATE organizations o SET plan = g.plan FROM (
    SELECT DISTINCT ON (organization_id) organization_id, plan FROM plan_grants
    WHERE until IS NULL OR until > now()
    ORDER BY organization_id, array_position(ARRAY['free', 'team', 'business'], plan) DESC NULLS LAST
) g WHERE g.organization_id = o.id;
"""


def upgrade() -> None:
    op.execute(TABLES)
    _change_rows("organizations", GRANT_MANUAL)
    op.execute(RIGHTS)
    _replace_functions(column="organization_grants", value=GRANTS_OF_ORGANIZATION.strip())


def downgrade() -> None:
    op.execute("ALTER TABLE plan_grants NO FORCE ROW LEVEL SECURITY")
    _change_rows("organizations", STORE_PLAN)
    _replace_functions(column="organization_plan", value="o.plan")
    op.execute("DROP TABLE used_trials, plan_grants")


def _change_rows(table: str, statements: str) -> None:
    op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(statements)
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")


def _replace_functions(*, column: str, value: str) -> None:
    op.execute(DROP_FUNCTIONS)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS.format(column=column, value=value))
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")
