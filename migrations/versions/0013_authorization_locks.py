"""Writes hold shared locks on what authorises them, and revocations wait for those locks.

The locks are advisory: they cost no write, they are granted in the order of the requests, so that a stream of writes
cannot keep a revocation waiting, and other changes of the same rows, such as the last use of a key, do not wait.

Revision ID: 0013
Revises: 0012
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

FUNCTIONS = """
CREATE FUNCTION authorization_lock(kind text, VARIADIC ids text[]) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT hashtextextended('authorization ' || kind || ' ' || array_to_string(ids, ' '), 0)
$$;

-- The next two are statements of a write: the second statement of each sees all that was committed before the locks.
CREATE FUNCTION lock_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, organization_plan text, organization_deleted_at timestamptz, now timestamptz
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
    role text, organization_id text, organization_plan text, organization_deleted_at timestamptz,
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

CREATE FUNCTION lock_for_revocation() RETURNS trigger
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
        PERFORM pg_advisory_xact_lock(authorization_lock('api_key', OLD.api_key_id));
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

ALTER FUNCTION lock_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_session(text, text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION lock_api_key(bytea), lock_session(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lock_api_key(bytea), lock_session(text, text) TO change_freeze_app, change_freeze_identity;
"""

# What takes a right away: table, event, and of an update the condition.
REVOCATIONS = (
    ("organizations", "UPDATE OF deleted_at", "OLD.deleted_at IS DISTINCT FROM NEW.deleted_at"),
    ("memberships", "UPDATE OF role", "OLD.role IS DISTINCT FROM NEW.role"),
    ("memberships", "DELETE", None),
    ("sessions", "UPDATE OF revoked_at", "OLD.revoked_at IS DISTINCT FROM NEW.revoked_at"),
    ("api_keys", "UPDATE OF revoked_at", "OLD.revoked_at IS DISTINCT FROM NEW.revoked_at"),
    ("api_key_secrets", "UPDATE OF ends_at", "OLD.ends_at IS DISTINCT FROM NEW.ends_at"),
)


def upgrade() -> None:
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")
    for table, event, condition in REVOCATIONS:
        when = f" WHEN ({condition})" if condition else ""
        name = f"lock_for_revocation_by_{event.split()[0].lower()}"
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW{when} EXECUTE FUNCTION lock_for_revocation()"
        )


def downgrade() -> None:
    for table, event, _condition in REVOCATIONS:
        op.execute(f"DROP TRIGGER lock_for_revocation_by_{event.split()[0].lower()} ON {table}")
    op.execute(
        "DROP FUNCTION lock_for_revocation(), lock_session(text, text), lock_api_key(bytea), "
        "authorization_lock(text, text[])"
    )
