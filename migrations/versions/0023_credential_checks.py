"""Cheaper checks of credentials.

The functions return a row for each grant of a plan, which PostgreSQL need not gather, and count the organisations of a
person only if the session has selected none.

Revision ID: 0023
Revises: 0022
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# A row holds a list of one grant, or NULL: code of the release before reads the first row, which has the right form.
GRANT_OF_ROW = """
CASE WHEN p.organization_id IS NOT NULL THEN
               json_build_array(json_build_array(p.source, p.plan, p.until))::text
           END"""
GRANTS_OF_ORGANIZATION = """
(SELECT json_agg(json_build_array(p.source, p.plan, p.until))::text FROM plan_grants p
            WHERE p.organization_id = o.id)"""
JOIN = """
    LEFT JOIN plan_grants p ON p.organization_id = o.id"""
COUNT_OF_ORGANIZATIONS = """
(SELECT count(*)::int FROM memberships x JOIN organizations y ON y.id = x.organization_id
            WHERE x.user_id = u.id AND y.deleted_at IS NULL)"""
SELECTED = "o.id = CASE WHEN s.support AND s.organization_id = $2 THEN s.organization_id ELSE m.organization_id END"
SELECTED_BEFORE = "o.id = m.organization_id OR (s.support AND o.id = $2 AND o.id = s.organization_id)"

FUNCTIONS = """
CREATE OR REPLACE FUNCTION find_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, organization_grants text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.id, k.name, k.organization_id, k.scopes, k.expires_at, k.revoked_at, s.ends_at, {value}, o.deleted_at,
           clock_timestamp()
    FROM api_key_secrets s
    JOIN api_keys k ON k.id = s.api_key_id
    JOIN organizations o ON o.id = k.organization_id{join}
    WHERE s.secret_hash = secret
$$;

CREATE OR REPLACE FUNCTION find_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_grants text, organization_deleted_at timestamptz,
    organization_count int, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.id, u.id, coalesce(s.support_by, u.name), s.revoked_at, s.expires_at, s.support, m.role, o.id, {value},
           o.deleted_at,
           {count},
           clock_timestamp()
    FROM sessions s
    JOIN users u ON u.id = s.user_id
    LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = $2 AND NOT s.support
    LEFT JOIN organizations o ON {organization}{join}
    WHERE s.id = $1
$$;

CREATE OR REPLACE FUNCTION find_oauth_grant(wanted text)
RETURNS TABLE (
    grant_id text, user_id text, user_name text, client_id text, client_name text, scopes text[],
    expires_at timestamptz, revoked_at timestamptz, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT g.id, u.id, u.name, g.client_id, g.client_name, g.scopes, g.expires_at,
           coalesce(g.revoked_at, c.blocked_at), m.role, o.id,
           {value},
           o.deleted_at, clock_timestamp()
    FROM oauth_grants g
    JOIN oauth_clients c ON c.client_id = g.client_id
    JOIN users u ON u.id = g.user_id
    JOIN organizations o ON o.id = g.organization_id
    LEFT JOIN memberships m ON m.user_id = g.user_id AND m.organization_id = g.organization_id{join}
    WHERE g.id = wanted
$$;
"""


def upgrade() -> None:
    """Replace the functions; their columns remain, so those that call them remain as well."""
    count = f"CASE WHEN o.id IS NULL THEN {COUNT_OF_ORGANIZATIONS.strip()} END"
    op.execute(FUNCTIONS.format(value=GRANT_OF_ROW.strip(), join=JOIN, count=count, organization=SELECTED))


def downgrade() -> None:
    """Return all grants in one row again, and count the organisations always."""
    values = {"value": GRANTS_OF_ORGANIZATION.strip(), "count": COUNT_OF_ORGANIZATIONS.strip()}
    op.execute(FUNCTIONS.format(**values, join="", organization=SELECTED_BEFORE))
