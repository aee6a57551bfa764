"""The first schema: tenants, repositories, freezes, checks, audit.

Row-level security is forced on every table that has an organisation (I8). Two roles, neither of which owns a table:
`change_freeze_app` sees the organisation named by `app.organization_id`, `change_freeze_worker` sees all, for jobs
and for the two functions that find out to whom a credential belongs. Roles belong to the whole cluster, where
another database may use them: the downgrade leaves them.

Revision ID: 0001
Revises:
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE chores (
    name TEXT NOT NULL,
    done_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_chores PRIMARY KEY (name)
);
CREATE TABLE idempotency_keys (
    organization_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    key_hash BYTEA NOT NULL,
    request_hash BYTEA NOT NULL,
    status INTEGER NOT NULL,
    headers JSONB NOT NULL,
    body BYTEA,
    secret BOOLEAN DEFAULT 'false' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (organization_id, principal_id, key_hash)
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);
CREATE TABLE organizations (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    plan TEXT DEFAULT 'free' NOT NULL,
    settings JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_organizations PRIMARY KEY (id),
    CONSTRAINT uq_organizations_slug UNIQUE (slug)
);
CREATE TABLE signing_keys (
    kid TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    public_key TEXT NOT NULL,
    private_key TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    retired_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_signing_keys PRIMARY KEY (kid)
);
CREATE TABLE users (
    id TEXT NOT NULL,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (id),
    CONSTRAINT uq_users_email UNIQUE (email)
);
CREATE TABLE webhook_deliveries (
    delivery_id TEXT NOT NULL,
    event TEXT NOT NULL,
    installation_id BIGINT,
    payload JSONB NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    processed_at TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_webhook_deliveries PRIMARY KEY (delivery_id)
);
CREATE INDEX ix_webhook_deliveries_received_at ON webhook_deliveries (received_at);
CREATE INDEX ix_webhook_deliveries_waiting ON webhook_deliveries (received_at) WHERE processed_at IS NULL;
CREATE TABLE api_keys (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT[] NOT NULL,
    agent BOOLEAN DEFAULT 'false' NOT NULL,
    prefix TEXT NOT NULL,
    created_by TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    rotated_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT fk_api_keys_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_api_keys_created_by FOREIGN KEY(created_by) REFERENCES users (id)
);
CREATE INDEX ix_api_keys_organization_id ON api_keys (organization_id);
CREATE TABLE audit_entries (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    action TEXT NOT NULL,
    actor JSONB NOT NULL,
    source TEXT NOT NULL,
    target JSONB NOT NULL,
    request_id TEXT,
    details JSONB NOT NULL,
    CONSTRAINT pk_audit_entries PRIMARY KEY (id),
    CONSTRAINT fk_audit_entries_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_audit_entries_page ON audit_entries (organization_id, at, id);
CREATE TABLE freezes (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    scope JSONB NOT NULL,
    source TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE,
    end_reason TEXT,
    exceptions_allowed BOOLEAN NOT NULL,
    previewed_repo_count INTEGER,
    impact_acknowledged BOOLEAN NOT NULL,
    schedule_id TEXT,
    occurrence_id TEXT,
    created_by JSONB NOT NULL,
    ended_by JSONB,
    enforced_at TIMESTAMP WITH TIME ZONE,
    released_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_freezes PRIMARY KEY (id),
    CONSTRAINT fk_freezes_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_freezes_ends_at ON freezes (ends_at) WHERE ended_at IS NULL;
CREATE INDEX ix_freezes_page ON freezes (organization_id, started_at, id);
CREATE INDEX ix_freezes_running ON freezes (organization_id) WHERE ended_at IS NULL;
CREATE TABLE installations (
    id BIGINT NOT NULL,
    organization_id TEXT,
    account TEXT NOT NULL,
    state TEXT DEFAULT 'active' NOT NULL,
    repository_selection TEXT DEFAULT 'all' NOT NULL,
    permissions JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    paused_until TIMESTAMP WITH TIME ZONE,
    served_at TIMESTAMP WITH TIME ZONE,
    synced_at TIMESTAMP WITH TIME ZONE,
    sync_requested_at TIMESTAMP WITH TIME ZONE,
    sync_started_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_installations PRIMARY KEY (id),
    CONSTRAINT fk_installations_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_installations_organization_id ON installations (organization_id);
CREATE TABLE memberships (
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_memberships PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_memberships_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_memberships_user_id FOREIGN KEY(user_id) REFERENCES users (id)
);
CREATE INDEX ix_memberships_user_id ON memberships (user_id);
CREATE TABLE sessions (
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    organization_id TEXT,
    support BOOLEAN DEFAULT 'false' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT fk_sessions_user_id FOREIGN KEY(user_id) REFERENCES users (id),
    CONSTRAINT fk_sessions_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_sessions_user_id ON sessions (user_id);
CREATE TABLE api_key_secrets (
    secret_hash BYTEA NOT NULL,
    organization_id TEXT NOT NULL,
    api_key_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_api_key_secrets PRIMARY KEY (secret_hash),
    CONSTRAINT fk_api_key_secrets_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_api_key_secrets_api_key_id FOREIGN KEY(api_key_id) REFERENCES api_keys (id)
);
CREATE INDEX ix_api_key_secrets_api_key_id ON api_key_secrets (api_key_id);
CREATE TABLE repositories (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    github_id BIGINT NOT NULL,
    node_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    private BOOLEAN NOT NULL,
    archived BOOLEAN DEFAULT 'false' NOT NULL,
    enabled BOOLEAN DEFAULT 'false' NOT NULL,
    auto_watch TEXT[] DEFAULT '{}' NOT NULL,
    former_names TEXT[] DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    synced_at TIMESTAMP WITH TIME ZONE NOT NULL,
    removed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_repositories PRIMARY KEY (id),
    CONSTRAINT fk_repositories_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_repositories_installation_id FOREIGN KEY(installation_id) REFERENCES installations (id)
);
CREATE INDEX ix_repositories_former_names ON repositories USING gin (former_names);
CREATE INDEX ix_repositories_full_name ON repositories (organization_id, lower(owner || '/' || name));
CREATE INDEX ix_repositories_installation ON repositories (installation_id);
CREATE INDEX ix_repositories_page ON repositories (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_repositories_github_id ON repositories (organization_id, github_id);
CREATE TABLE pull_requests (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    repository_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    author TEXT NOT NULL,
    url TEXT NOT NULL,
    base_branch TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    state TEXT NOT NULL,
    merge_rank SMALLINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_pull_requests PRIMARY KEY (id),
    CONSTRAINT fk_pull_requests_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_pull_requests_repository_id FOREIGN KEY(repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_pull_requests_head ON pull_requests (repository_id, head_sha) WHERE state = 'open';
CREATE INDEX ix_pull_requests_open ON pull_requests (repository_id, base_branch) WHERE state = 'open';
CREATE UNIQUE INDEX uq_pull_requests_number ON pull_requests (repository_id, number);
CREATE TABLE remote_branch_lists (
    repository_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    fetched_at TIMESTAMP WITH TIME ZONE NOT NULL,
    branches JSONB NOT NULL,
    CONSTRAINT pk_remote_branch_lists PRIMARY KEY (repository_id),
    CONSTRAINT fk_remote_branch_lists_repository_id FOREIGN KEY(repository_id) REFERENCES repositories (id),
    CONSTRAINT fk_remote_branch_lists_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE TABLE watched_branches (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    repository_id TEXT NOT NULL,
    name TEXT NOT NULL,
    check_name TEXT NOT NULL,
    exceptions_allowed BOOLEAN DEFAULT 'true' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    unwatched_at TIMESTAMP WITH TIME ZONE,
    wanted_generation BIGINT DEFAULT '0' NOT NULL,
    written_generation BIGINT DEFAULT '0' NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    merge_rank SMALLINT DEFAULT '9' NOT NULL,
    read_back BOOLEAN DEFAULT 'false' NOT NULL,
    lease_token TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_watched_branches PRIMARY KEY (id),
    CONSTRAINT fk_watched_branches_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_watched_branches_repository_id FOREIGN KEY(repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_watched_branches_due ON watched_branches (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_watched_branches_page ON watched_branches (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_watched_branches_name ON watched_branches (repository_id, name);
CREATE TABLE freeze_targets (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    freeze_id TEXT NOT NULL,
    branch_id TEXT NOT NULL,
    state TEXT DEFAULT 'pending' NOT NULL,
    operation TEXT DEFAULT 'apply' NOT NULL,
    generation BIGINT NOT NULL,
    heads_total INTEGER DEFAULT '0' NOT NULL,
    heads_written INTEGER DEFAULT '0' NOT NULL,
    attempts INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    applied_at TIMESTAMP WITH TIME ZONE,
    released_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_freeze_targets PRIMARY KEY (id),
    CONSTRAINT fk_freeze_targets_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_freeze_targets_freeze_id FOREIGN KEY(freeze_id) REFERENCES freezes (id),
    CONSTRAINT fk_freeze_targets_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_freeze_targets_covering ON freeze_targets (branch_id) WHERE operation = 'apply';
CREATE INDEX ix_freeze_targets_state ON freeze_targets (freeze_id, state);
CREATE INDEX ix_freeze_targets_unfinished ON freeze_targets (branch_id)
    WHERE state IN ('pending', 'releasing', 'failed');
CREATE UNIQUE INDEX uq_freeze_targets_branch ON freeze_targets (freeze_id, branch_id);
CREATE TABLE head_checks (
    repository_id TEXT NOT NULL,
    check_name TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    branch_id TEXT NOT NULL,
    conclusion TEXT NOT NULL,
    evaluation BIGINT NOT NULL,
    check_run_id BIGINT,
    summary_hash TEXT NOT NULL,
    followed BOOLEAN DEFAULT 'true' NOT NULL,
    doubtful BOOLEAN DEFAULT 'false' NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_head_checks PRIMARY KEY (repository_id, check_name, head_sha),
    CONSTRAINT fk_head_checks_repository_id FOREIGN KEY(repository_id) REFERENCES repositories (id),
    CONSTRAINT fk_head_checks_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_head_checks_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_head_checks_followed ON head_checks (repository_id, check_name) WHERE followed;
CREATE INDEX ix_head_checks_superseded ON head_checks (repository_id, check_name)
    WHERE NOT followed AND (conclusion = 'success' OR doubtful);
"""

ROLES = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'change_freeze_app') THEN
        CREATE ROLE change_freeze_app NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'change_freeze_worker') THEN
        CREATE ROLE change_freeze_worker NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of the cluster is being migrated at the same moment
END $$;
GRANT change_freeze_app, change_freeze_worker TO CURRENT_USER;
GRANT USAGE ON SCHEMA public TO change_freeze_app, change_freeze_worker;
"""

# Tables whose rows belong to one organisation, and what the application may do with them.
RIGHTS = {
    "organizations": "SELECT, UPDATE",
    "memberships": "SELECT, INSERT, UPDATE, DELETE",
    "api_keys": "SELECT, INSERT, UPDATE",
    "api_key_secrets": "SELECT, INSERT, UPDATE, DELETE",
    "installations": "SELECT, UPDATE",
    "repositories": "SELECT, INSERT, UPDATE",
    "remote_branch_lists": "SELECT, INSERT, UPDATE",
    "watched_branches": "SELECT, INSERT, UPDATE",
    "pull_requests": "SELECT, INSERT, UPDATE",
    "head_checks": "SELECT",
    "freezes": "SELECT, INSERT, UPDATE",
    "freeze_targets": "SELECT, INSERT, UPDATE",
    "idempotency_keys": "SELECT, INSERT, UPDATE, DELETE",
    "audit_entries": "SELECT, INSERT",
}

FORMER_NAMES = """
CREATE FUNCTION remember_former_name() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.former_names := array_append(
        array_remove(OLD.former_names, lower(OLD.owner || '/' || OLD.name)), lower(OLD.owner || '/' || OLD.name)
    );
    RETURN NEW;
END $$;
CREATE TRIGGER remember_former_name BEFORE UPDATE OF owner, name ON repositories FOR EACH ROW
    WHEN (lower(OLD.owner || '/' || OLD.name) <> lower(NEW.owner || '/' || NEW.name))
    EXECUTE FUNCTION remember_former_name();
"""

FUNCTIONS = """
CREATE SEQUENCE evaluations;
GRANT USAGE ON SEQUENCE evaluations TO change_freeze_worker;

CREATE FUNCTION find_api_key(secret bytea)
RETURNS TABLE (
    key_id text, key_name text, organization_id text, scopes text[], expires_at timestamptz, revoked_at timestamptz,
    secret_ends_at timestamptz, organization_plan text, organization_deleted_at timestamptz, now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.id, k.name, k.organization_id, k.scopes, k.expires_at, k.revoked_at, s.ends_at, o.plan, o.deleted_at,
           clock_timestamp()
    FROM api_key_secrets s
    JOIN api_keys k ON k.id = s.api_key_id
    JOIN organizations o ON o.id = k.organization_id
    WHERE s.secret_hash = secret
$$;

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

ALTER FUNCTION find_api_key(bytea) OWNER TO change_freeze_worker;
ALTER FUNCTION find_session(text, text) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION find_api_key(bytea), find_session(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(bytea), find_session(text, text) TO change_freeze_app;
"""

# Rows that jobs change again and again: room for the next version on the page, and fresh statistics.
BUSY = ("watched_branches", "freeze_targets", "head_checks")

# Tables without an organisation: what the application may see of them.
OTHERS = """
GRANT SELECT (kid, algorithm, public_key, created_at, retired_at) ON signing_keys TO change_freeze_app;
GRANT INSERT, SELECT (delivery_id) ON webhook_deliveries TO change_freeze_app;
GRANT SELECT ON chores TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON users, sessions, signing_keys, webhook_deliveries, chores
    TO change_freeze_worker;
"""

DROPPED = (
    "head_checks",
    "freeze_targets",
    "watched_branches",
    "pull_requests",
    "remote_branch_lists",
    "repositories",
    "api_key_secrets",
    "sessions",
    "memberships",
    "installations",
    "freezes",
    "audit_entries",
    "api_keys",
    "webhook_deliveries",
    "users",
    "signing_keys",
    "organizations",
    "idempotency_keys",
    "chores",
)


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(ROLES)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    for table, rights in RIGHTS.items():
        column = "id" if table == "organizations" else "organization_id"
        own = f"{column} = current_setting('app.organization_id', true)"
        all_rights = "SELECT, INSERT" if table == "audit_entries" else "SELECT, INSERT, UPDATE, DELETE"
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_organization ON {table} TO change_freeze_app USING ({own}) WITH CHECK ({own})")
        op.execute(
            f"CREATE POLICY every_organization ON {table} TO change_freeze_worker USING (true) WITH CHECK (true)"
        )
        op.execute(f"GRANT {rights} ON {table} TO change_freeze_app")
        op.execute(f"GRANT {all_rights} ON {table} TO change_freeze_worker")
    for table in BUSY:
        op.execute(
            f"ALTER TABLE {table} SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, "
            "autovacuum_analyze_scale_factor = 0.05)"
        )
    op.execute(OTHERS)
    op.execute(FORMER_NAMES)
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    op.execute("DROP FUNCTION find_api_key(bytea), find_session(text, text)")
    op.execute("DROP SEQUENCE evaluations")
    op.execute("DROP TABLE " + ", ".join(DROPPED))
    op.execute("DROP FUNCTION remember_former_name()")
