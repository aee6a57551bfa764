-- Functions, triggers, and the one view. Functions fix search_path, so that nobody's table takes another's place.

-- The number of the advisory lock of what authorises a write: writes share it, revocations wait for it.
CREATE FUNCTION authorization_lock(kind text, VARIADIC ids text[]) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT hashtextextended('authorization ' || kind || ' ' || array_to_string(ids, ' '), 0)
$$;

-- What takes a right away waits until the writes that it authorised have ended, and later ones see it.
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
    ELSIF TG_TABLE_NAME = 'oauth_grants' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('oauth_grant', OLD.id));
    ELSIF TG_TABLE_NAME = 'slack_links' THEN
        PERFORM pg_advisory_xact_lock(authorization_lock('slack_link', OLD.organization_id, OLD.user_id));
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF deleted_at ON organizations FOR EACH ROW
    WHEN (OLD.deleted_at IS DISTINCT FROM NEW.deleted_at) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF revoked_at ON sessions FOR EACH ROW
    WHEN (OLD.revoked_at IS DISTINCT FROM NEW.revoked_at) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF role ON memberships FOR EACH ROW
    WHEN (OLD.role IS DISTINCT FROM NEW.role) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF revoked_at ON api_keys FOR EACH ROW
    WHEN (OLD.revoked_at IS DISTINCT FROM NEW.revoked_at) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF ends_at ON api_key_secrets FOR EACH ROW
    WHEN (OLD.ends_at IS DISTINCT FROM NEW.ends_at) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_update BEFORE UPDATE OF revoked_at ON oauth_grants FOR EACH ROW
    WHEN (OLD.revoked_at IS DISTINCT FROM NEW.revoked_at) EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_delete BEFORE DELETE ON memberships FOR EACH ROW
    EXECUTE FUNCTION lock_for_revocation();
CREATE TRIGGER lock_for_revocation_by_delete BEFORE DELETE ON slack_links FOR EACH ROW
    EXECUTE FUNCTION lock_for_revocation();

-- Who has this secret. The plan is computed from the grants: a row for each, or one with none.
CREATE FUNCTION find_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, organization_grants text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.id, k.name, k.organization_id, k.scopes, k.expires_at, k.revoked_at, s.ends_at, CASE WHEN p.organization_id IS NOT NULL THEN
               json_build_array(json_build_array(p.source, p.plan, p.until))::text
           END, o.deleted_at,
           clock_timestamp()
    FROM api_key_secrets s
    JOIN api_keys k ON k.id = s.api_key_id
    JOIN organizations o ON o.id = k.organization_id
    LEFT JOIN plan_grants p ON p.organization_id = o.id
    WHERE s.secret_hash = secret
$$;

-- Who has signed in, as a member of this organisation; of a support session, its operator.
CREATE FUNCTION find_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_grants text, organization_deleted_at timestamptz,
    organization_count integer, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.id, u.id, coalesce(s.support_by, u.name), s.revoked_at, s.expires_at, s.support, m.role, o.id, CASE WHEN p.organization_id IS NOT NULL THEN
               json_build_array(json_build_array(p.source, p.plan, p.until))::text
           END,
           o.deleted_at,
           CASE WHEN o.id IS NULL THEN (SELECT count(*)::int FROM memberships x JOIN organizations y ON y.id = x.organization_id
            WHERE x.user_id = u.id AND y.deleted_at IS NULL) END,
           clock_timestamp()
    FROM sessions s
    JOIN users u ON u.id = s.user_id
    LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = $2 AND NOT s.support
    LEFT JOIN organizations o ON o.id = CASE WHEN s.support AND s.organization_id = $2 THEN s.organization_id ELSE m.organization_id END
    LEFT JOIN plan_grants p ON p.organization_id = o.id
    WHERE s.id = $1
$$;

-- The same for the token of a cookie.
CREATE FUNCTION find_sign_in(token bytea)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_grants text, organization_deleted_at timestamptz,
    organization_count integer, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.* FROM sessions s, find_session(s.id, s.organization_id) f WHERE s.token_hash = token
$$;

-- What a client was granted that a person connected.
CREATE FUNCTION find_oauth_grant(wanted text)
RETURNS TABLE (
    grant_id text, user_id text, user_name text, client_id text, client_name text, scopes text[], expires_at
    timestamptz, revoked_at timestamptz, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT g.id, u.id, u.name, g.client_id, g.client_name, g.scopes, g.expires_at,
           coalesce(g.revoked_at, c.blocked_at), m.role, o.id,
           CASE WHEN p.organization_id IS NOT NULL THEN
               json_build_array(json_build_array(p.source, p.plan, p.until))::text
           END,
           o.deleted_at, clock_timestamp()
    FROM oauth_grants g
    JOIN oauth_clients c ON c.client_id = g.client_id
    JOIN users u ON u.id = g.user_id
    JOIN organizations o ON o.id = g.organization_id
    LEFT JOIN memberships m ON m.user_id = g.user_id AND m.organization_id = g.organization_id
    LEFT JOIN plan_grants p ON p.organization_id = o.id
    WHERE g.id = wanted
$$;

-- A request of Slack names a workspace, and no organisation.
CREATE FUNCTION find_slack_connection(team text)
RETURNS TABLE (
    connection_id text, organization_id text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.id, c.organization_id
    FROM slack_connections c JOIN organizations o ON o.id = c.organization_id
    WHERE c.team_id = team AND c.removed_at IS NULL AND c.lost_at IS NULL AND o.deleted_at IS NULL
$$;

-- A row is found for each user of a connected workspace, linked or not, and as many as the organisation has grants.
CREATE FUNCTION find_slack_person(team text, slack_user text)
RETURNS TABLE (
    user_id text, user_name text, role text, organization_id text, organization_grants text, organization_deleted_at
    timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT u.id, u.name, m.role, o.id,
           CASE WHEN p.organization_id IS NOT NULL THEN
               json_build_array(json_build_array(p.source, p.plan, p.until))::text
           END,
           o.deleted_at, clock_timestamp()
    FROM slack_connections c
    JOIN organizations o ON o.id = c.organization_id
    LEFT JOIN slack_links l ON l.organization_id = c.organization_id AND l.team_id = c.team_id
        AND l.slack_user_id = slack_user
    LEFT JOIN users u ON u.id = l.user_id
    LEFT JOIN memberships m ON m.user_id = l.user_id AND m.organization_id = l.organization_id
    LEFT JOIN plan_grants p ON p.organization_id = o.id
    WHERE c.team_id = team AND c.removed_at IS NULL AND c.lost_at IS NULL
$$;

-- A feed is found as long as its creator is a member, whatever became of its row.
CREATE FUNCTION find_calendar_feed(hash bytea)
RETURNS TABLE (
    feed_id text, organization_id text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.id, o.id
    FROM calendar_feeds f
    JOIN organizations o ON o.id = f.organization_id
    JOIN memberships m ON m.organization_id = f.organization_id AND m.user_id = f.user_id
    WHERE f.token_hash = hash AND f.revoked_at IS NULL AND o.deleted_at IS NULL
$$;

-- What people cannot tell apart has one key: compatible forms, both cases, and what shows nothing (as in
-- rules/plain_text.py, and joiners and variation selectors, which change no letter).
CREATE FUNCTION name_key(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT lower(regexp_replace(normalize(lower(name), NFKC),
        '[\s\u0001-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u200b-\u200f'
        '\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]', '', 'g'))
$$;
CREATE INDEX ix_users_name_key ON users (name_key(name));

-- The name under which a member is recorded: with the address where another member has the same name. A name that has
-- an address in it could pass for the form that this gives to others. Callers see what their role sees: in a request,
-- the members of the organisation.
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

-- The functions lock_… are for writes: the second statement of each sees all that was committed before the locks.
CREATE FUNCTION lock_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, organization_grants text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', s.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('api_key', s.api_key_id))
    FROM api_key_secrets s WHERE s.secret_hash = secret;
    SELECT * FROM find_api_key(secret)
$$;

-- A support session keeps the name of its operator.
CREATE FUNCTION lock_session(session_id text, organization text)
RETURNS TABLE (
    session_id text, user_id text, user_name text, revoked_at timestamptz, expires_at timestamptz, support boolean,
    role text, organization_id text, organization_grants text, organization_deleted_at timestamptz,
    organization_count integer, now timestamptz
)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN organization IS NOT NULL THEN
               pg_advisory_xact_lock_shared(authorization_lock('organization', organization))
           END,
           CASE WHEN organization IS NOT NULL THEN
               pg_advisory_xact_lock_shared(authorization_lock('member', organization, s.user_id))
           END,
           pg_advisory_xact_lock_shared(authorization_lock('session', s.id))
    FROM sessions s WHERE s.id = $1;
    SELECT f.session_id, f.user_id, CASE WHEN f.support THEN f.user_name ELSE member_name(f.user_id, f.organization_id) END, f.revoked_at, f.expires_at, f.support, f.role, f.organization_id,
           f.organization_grants, f.organization_deleted_at, f.organization_count, f.now
    FROM find_session($1, $2) f
$$;

CREATE FUNCTION lock_oauth_grant(wanted text)
RETURNS TABLE (
    grant_id text, user_id text, user_name text, client_id text, client_name text, scopes text[], expires_at
    timestamptz, revoked_at timestamptz, role text, organization_id text, organization_grants text,
    organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', g.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('member', g.organization_id, g.user_id)),
           pg_advisory_xact_lock_shared(authorization_lock('oauth_grant', g.id))
    FROM oauth_grants g WHERE g.id = wanted;
    SELECT f.grant_id, f.user_id, member_name(f.user_id, f.organization_id), f.client_id, f.client_name, f.scopes, f.expires_at, f.revoked_at, f.role,
           f.organization_id, f.organization_grants, f.organization_deleted_at, f.now
    FROM find_oauth_grant(wanted) f
$$;

CREATE FUNCTION lock_slack_person(team text, slack_user text)
RETURNS TABLE (
    user_id text, user_name text, role text, organization_id text, organization_grants text, organization_deleted_at
    timestamptz, now timestamptz
)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock_shared(authorization_lock('organization', l.organization_id)),
           pg_advisory_xact_lock_shared(authorization_lock('member', l.organization_id, l.user_id)),
           pg_advisory_xact_lock_shared(authorization_lock('slack_link', l.organization_id, l.user_id))
    FROM slack_connections c
    JOIN slack_links l ON l.organization_id = c.organization_id AND l.team_id = c.team_id
    WHERE c.team_id = team AND l.slack_user_id = slack_user AND c.removed_at IS NULL AND c.lost_at IS NULL;
    SELECT f.user_id, member_name(f.user_id, f.organization_id), f.role, f.organization_id, f.organization_grants, f.organization_deleted_at, f.now
    FROM find_slack_person(team, slack_user) f
$$;

-- API keys were used at these instants.
CREATE FUNCTION note_key_uses(keys text[], instants timestamptz[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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

-- A workspace that is connected again keeps its token, which an earlier disconnection would revoke.
CREATE FUNCTION keep_slack_token(team text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM slack_connections WHERE team_id = team AND removed_at IS NOT NULL
$$;

-- A webhook of Stripe names a customer, and no organisation. What is requested during a lease stays due after it.
CREATE FUNCTION request_stripe_customer(customer text, at timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE stripe_customers c
    SET attempts = 0,
        due_at = CASE WHEN c.lease_until > at THEN greatest(at, c.due_at + interval '1 microsecond')
                 ELSE least(at, c.due_at) END
    WHERE c.id = customer RETURNING true
$$;

-- The same for the prices.
CREATE FUNCTION request_stripe_prices(at timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO stripe_catalogues AS c (name, due_at) VALUES ('prices', at)
    ON CONFLICT (name) DO UPDATE
    SET attempts = 0,
        due_at = CASE WHEN c.lease_until > at THEN greatest(at, c.due_at + interval '1 microsecond')
                 ELSE least(at, c.due_at) END
    RETURNING true
$$;

-- Every entry waits for its seal from the very transaction that writes it, whoever writes it.
CREATE FUNCTION await_seal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO audit_unsealed (entry_id, organization_id) SELECT id, organization_id FROM fresh;
    RETURN NULL;
END $$;
CREATE TRIGGER await_seal AFTER INSERT ON audit_entries REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION await_seal();

-- Repositories are found under the names that they had.
CREATE FUNCTION remember_former_name() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.former_names := array_append(
        array_remove(OLD.former_names, lower(OLD.owner || '/' || OLD.name)), lower(OLD.owner || '/' || OLD.name)
    );
    RETURN NEW;
END $$;
CREATE TRIGGER remember_former_name BEFORE UPDATE OF owner, name ON repositories FOR EACH ROW
    WHEN (lower(OLD.owner || '/' || OLD.name) <> lower(NEW.owner || '/' || NEW.name))
    EXECUTE FUNCTION remember_former_name();

-- The cluster and the database that this is, to compare with the row of database_identity. The timeline is in the first
-- eight hexadecimal digits of the name of a WAL file.
CREATE VIEW present_database AS
SELECT c.system_identifier, d.oid::bigint AS database_oid, 'database_identity'::regclass::oid::bigint AS table_oid,
       ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer AS timeline
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();

-- These run as change_freeze_worker, which sees every organisation. It may create only while it is given them.
GRANT CREATE ON SCHEMA public TO change_freeze_worker;
ALTER FUNCTION find_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION find_session(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_sign_in(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION find_oauth_grant(text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_slack_connection(text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_slack_person(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION find_calendar_feed(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_session(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_oauth_grant(text) OWNER TO change_freeze_worker;
ALTER FUNCTION lock_slack_person(text, text) OWNER TO change_freeze_worker;
ALTER FUNCTION note_key_uses(text[], timestamptz[]) OWNER TO change_freeze_worker;
ALTER FUNCTION claim_installation(bigint, text, timestamptz) OWNER TO change_freeze_worker;
ALTER FUNCTION keep_slack_token(text) OWNER TO change_freeze_worker;
ALTER FUNCTION request_stripe_customer(text, timestamptz) OWNER TO change_freeze_worker;
ALTER FUNCTION request_stripe_prices(timestamptz) OWNER TO change_freeze_worker;
ALTER FUNCTION await_seal() OWNER TO change_freeze_worker;
REVOKE CREATE ON SCHEMA public FROM change_freeze_worker;

-- Nobody else may call them but whom they are for.
REVOKE ALL ON FUNCTION find_api_key(bytea), find_session(text, text), find_sign_in(bytea), find_oauth_grant(text),
    find_slack_connection(text), find_slack_person(text, text), find_calendar_feed(bytea), lock_api_key(bytea),
    lock_session(text, text), lock_oauth_grant(text), lock_slack_person(text, text), note_key_uses(text[],
    timestamptz[]), claim_installation(bigint, text, timestamptz), keep_slack_token(text),
    request_stripe_customer(text, timestamptz), request_stripe_prices(timestamptz), await_seal() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(bytea), find_slack_connection(text), find_calendar_feed(bytea),
    note_key_uses(text[], timestamptz[]), claim_installation(bigint, text, timestamptz), keep_slack_token(text),
    request_stripe_prices(timestamptz) TO change_freeze_app;
GRANT EXECUTE ON FUNCTION find_session(text, text), find_sign_in(bytea), find_oauth_grant(text),
    find_slack_person(text, text), lock_api_key(bytea), lock_session(text, text), lock_oauth_grant(text),
    lock_slack_person(text, text), request_stripe_customer(text, timestamptz) TO change_freeze_app,
    change_freeze_identity;
