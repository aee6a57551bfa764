"""The name under which a member is recorded: with their address where another member has the same name.

Writes find it out while they lock what authorizes them, so that reads of a credential cost what they did. The index
makes other people of the same name quick to find; users are few enough to build it in place.

Revision ID: 0043
Revises: 0042
"""

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

# What people cannot tell apart has one key: compatible forms, both cases, and what shows nothing (as in
# `rules/plain_text.py`, and joiners and variation selectors, which change no letter).
NAME_KEY = r"""
CREATE FUNCTION name_key(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT lower(regexp_replace(normalize(lower(name), NFKC),
        '[\s\u0001-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u200b-\u200f'
        '\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]', '', 'g'))
$$;
CREATE INDEX ix_users_name_key ON users (name_key(name));
"""

# A name that has an address in it could pass for the form that this gives to others. Callers see what their role sees:
# in a request, the members of the organisation.
MEMBER_NAME = """
CREATE FUNCTION member_name(member text, organization text) RETURNS text
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN organization IS NOT NULL AND (
               position('@' IN name_key(u.name)) > 0 AND name_key(u.name) <> name_key(u.email)
               OR EXISTS (
                   SELECT FROM users x JOIN memberships m ON m.user_id = x.id AND m.organization_id = organization
                   WHERE name_key(x.name) = name_key(u.name) AND x.id <> u.id
               )
           ) THEN u.name || ' (' || u.email || ')' ELSE u.name END
    FROM users u WHERE u.id = member
$$;
"""

# As before, but for the name. A support session keeps the name of its operator.
LOCKS = """
CREATE OR REPLACE FUNCTION lock_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_grants text, organization_deleted_at timestamptz,
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
    SELECT f.session_id, f.user_id, {of_session}, f.revoked_at, f.expires_at, f.support, f.role, f.organization_id,
           f.organization_grants, f.organization_deleted_at, f.organization_count, f.now
    FROM find_session($1, $2) f
$$;

CREATE OR REPLACE FUNCTION lock_oauth_grant(wanted text)
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
    SELECT f.grant_id, f.user_id, {of_person}, f.client_id, f.client_name, f.scopes, f.expires_at, f.revoked_at, f.role,
           f.organization_id, f.organization_grants, f.organization_deleted_at, f.now
    FROM find_oauth_grant(wanted) f
$$;

CREATE OR REPLACE FUNCTION lock_slack_person(team text, slack_user text)
RETURNS TABLE (
    user_id text, user_name text, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', l.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('member', l.organization_id, l.user_id)),
           pg_advisory_xact_lock_shared(authorization_lock('slack_link', l.organization_id, l.user_id))
    FROM slack_connections c
    JOIN slack_links l ON l.organization_id = c.organization_id AND l.team_id = c.team_id
    WHERE c.team_id = team AND l.slack_user_id = slack_user AND c.removed_at IS NULL AND c.lost_at IS NULL;
    SELECT f.user_id, {of_person}, f.role, f.organization_id, f.organization_grants, f.organization_deleted_at, f.now
    FROM find_slack_person(team, slack_user) f
$$;
"""
SHOWN = "member_name(f.user_id, f.organization_id)"


def upgrade() -> None:
    """Add functions and index, and have the locks of persons return the name."""
    op.execute(NAME_KEY)
    op.execute(MEMBER_NAME)
    of_session = f"CASE WHEN f.support THEN f.user_name ELSE {SHOWN} END"
    op.execute(LOCKS.format(of_session=of_session, of_person=SHOWN))


def downgrade() -> None:
    """Return names as they are again, and drop functions and index."""
    op.execute(LOCKS.format(of_session="f.user_name", of_person="f.user_name"))
    op.execute("DROP FUNCTION member_name(text, text)")
    op.execute("DROP INDEX ix_users_name_key")
    op.execute("DROP FUNCTION name_key(text)")
