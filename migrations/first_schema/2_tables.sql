-- The tables: keys, defaults, indexes and storage. A table follows those that it refers to. models/ says what columns mean;
-- those of leased work (due_at, lease_…, attempts, last_error_…) are in models/leases.py.

-- A tenant: everything else belongs to exactly one.
CREATE TABLE organizations (
    id text NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    settings jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    purged_at timestamptz,
    CONSTRAINT pk_organizations PRIMARY KEY (id),
    CONSTRAINT uq_organizations_slug UNIQUE (slug)
);
CREATE INDEX ix_organizations_deleted ON organizations (deleted_at)
    WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- The rules that we wrote at GitHub for a deleted organisation are to be removed.
CREATE TABLE withdrawals (
    organization_id text NOT NULL,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_withdrawals PRIMARY KEY (organization_id),
    CONSTRAINT fk_withdrawals_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_withdrawals_due ON withdrawals (due_at) WHERE due_at IS NOT NULL;

-- A person; may be a member of several organisations.
CREATE TABLE users (
    id text NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    password_hash text,
    email_verified_at timestamptz,
    CONSTRAINT pk_users PRIMARY KEY (id),
    CONSTRAINT uq_users_email UNIQUE (email)
);

-- A user's role in one organisation.
CREATE TABLE memberships (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_memberships PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_memberships_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_memberships_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_memberships_user_id ON memberships (user_id);

-- A sign-in: the `sid` that access tokens name. Revoking it ends them all at once.
CREATE TABLE sessions (
    id text NOT NULL,
    user_id text NOT NULL,
    organization_id text,
    support boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    kind text NOT NULL DEFAULT 'browser',
    token_hash bytea,
    client text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    last_used_at timestamptz,
    support_by text,
    support_reason text,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT fk_sessions_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_sessions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_sessions_user_id ON sessions (user_id);
CREATE UNIQUE INDEX uq_sessions_token_hash ON sessions (token_hash);

-- A key pair that signs access tokens; retired ones still verify until their tokens have expired.
CREATE TABLE signing_keys (
    kid text NOT NULL,
    algorithm text NOT NULL,
    public_key text NOT NULL,
    created_at timestamptz NOT NULL,
    retired_at timestamptz,
    active_from timestamptz,
    encrypted_private_key bytea,
    CONSTRAINT pk_signing_keys PRIMARY KEY (kid)
);

-- An invitation of an address to become a member; its state follows from its instants.
CREATE TABLE invitations (
    id text NOT NULL,
    organization_id text NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    invited_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    accepted_at timestamptz,
    accepted_by text,
    revoked_at timestamptz,
    CONSTRAINT pk_invitations PRIMARY KEY (id),
    CONSTRAINT fk_invitations_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_invitations_accepted_by FOREIGN KEY (accepted_by) REFERENCES users (id)
);
CREATE INDEX ix_invitations_email ON invitations (email) WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX ix_invitations_organization_id ON invitations (organization_id, created_at);

-- The SHA-256 of a secret that was mailed or put into an address, good for one use until it expires.
CREATE TABLE one_time_tokens (
    token_hash bytea NOT NULL,
    purpose text NOT NULL,
    subject text NOT NULL,
    organization_id text,
    details jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    CONSTRAINT pk_one_time_tokens PRIMARY KEY (token_hash),
    CONSTRAINT fk_one_time_tokens_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_one_time_tokens_expires_at ON one_time_tokens (expires_at);
CREATE INDEX ix_one_time_tokens_subject ON one_time_tokens (purpose, subject);

-- A mail in the outbox: written in the transaction of the change that it announces, sent by a job.
CREATE TABLE mails (
    id text NOT NULL,
    organization_id text,
    recipient text NOT NULL,
    template text NOT NULL,
    encrypted_values bytea,
    created_at timestamptz NOT NULL,
    due_at timestamptz,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    sent_at timestamptz,
    last_error_message text,
    lease_token text,
    lease_holder integer,
    last_error_code text,
    CONSTRAINT pk_mails PRIMARY KEY (id),
    CONSTRAINT fk_mails_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_mails_due ON mails (due_at) WHERE due_at IS NOT NULL;

-- An attempt at something with a limit: a password, a device code, a mail to an address.
CREATE TABLE throttled_attempts (
    id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME attempts_id_seq),
    kind text NOT NULL,
    subject text NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_throttled_attempts PRIMARY KEY (id)
);
CREATE INDEX ix_throttled_attempts_at ON throttled_attempts (at);
CREATE INDEX ix_throttled_attempts_subject ON throttled_attempts (kind, subject, at);

-- A device waits for a person to approve it (RFC 8628).
CREATE TABLE device_authorizations (
    device_code_hash bytea NOT NULL,
    user_code text NOT NULL,
    client_id text NOT NULL,
    address text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    interval_seconds integer NOT NULL,
    polled_at timestamptz,
    decided_at timestamptz,
    approved boolean,
    user_id text,
    organization_id text,
    consumed_at timestamptz,
    resource text,
    scopes text[],
    CONSTRAINT pk_device_authorizations PRIMARY KEY (device_code_hash),
    CONSTRAINT fk_device_authorizations_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_device_authorizations_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_device_authorizations_expires_at ON device_authorizations (expires_at);
CREATE INDEX ix_device_authorizations_user_code ON device_authorizations (user_code);

-- A member's own account at GitHub, as GitHub has confirmed it; it ends with the membership.
CREATE TABLE github_links (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    account_id bigint NOT NULL,
    login text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_github_links PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_github_links_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_github_links_account_id ON github_links (organization_id, account_id);

-- An API key of an organisation: its scopes are its authorisation, and never change.
CREATE TABLE api_keys (
    id text NOT NULL,
    organization_id text NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    agent boolean NOT NULL DEFAULT false,
    prefix text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    rotated_at timestamptz,
    created_by jsonb,
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT fk_api_keys_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_api_keys_organization_id ON api_keys (organization_id);

-- The SHA-256 of one secret of a key; `ends_at` is set once a rotation has replaced it.
CREATE TABLE api_key_secrets (
    secret_hash bytea NOT NULL,
    organization_id text NOT NULL,
    api_key_id text NOT NULL,
    created_at timestamptz NOT NULL,
    ends_at timestamptz,
    CONSTRAINT pk_api_key_secrets PRIMARY KEY (secret_hash),
    CONSTRAINT fk_api_key_secrets_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_api_key_secrets_api_key_id FOREIGN KEY (api_key_id) REFERENCES api_keys (id)
);
CREATE INDEX ix_api_key_secrets_api_key_id ON api_key_secrets (api_key_id);

-- A client that is identified by the address of its metadata document, or a device that only names itself.
CREATE TABLE oauth_clients (
    client_id text NOT NULL,
    document jsonb,
    fetched_at timestamptz,
    fresh_until timestamptz,
    blocked_at timestamptz,
    CONSTRAINT pk_oauth_clients PRIMARY KEY (client_id)
);

-- What a person allowed a client to do in one organisation: a connection. Revoking it ends its tokens at once.
CREATE TABLE oauth_grants (
    id text NOT NULL,
    user_id text NOT NULL,
    organization_id text NOT NULL,
    client_id text NOT NULL,
    client_name text NOT NULL,
    resource text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    revoked_why text,
    CONSTRAINT pk_oauth_grants PRIMARY KEY (id),
    CONSTRAINT fk_oauth_grants_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_oauth_grants_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_grants_client_id FOREIGN KEY (client_id) REFERENCES oauth_clients (client_id)
);
CREATE INDEX ix_oauth_grants_client_id ON oauth_grants (client_id);
CREATE INDEX ix_oauth_grants_expires_at ON oauth_grants (expires_at);
CREATE INDEX ix_oauth_grants_organization_id ON oauth_grants (organization_id, created_at);
CREATE INDEX ix_oauth_grants_user_id ON oauth_grants (user_id, created_at);

-- The SHA-256 of an authorization code, which is spent by the first attempt to exchange it.
CREATE TABLE oauth_codes (
    code_hash bytea NOT NULL,
    organization_id text NOT NULL,
    grant_id text NOT NULL,
    redirect_uri text NOT NULL,
    challenge text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    CONSTRAINT pk_oauth_codes PRIMARY KEY (code_hash),
    CONSTRAINT fk_oauth_codes_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_codes_grant_id FOREIGN KEY (grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
);
CREATE INDEX ix_oauth_codes_expires_at ON oauth_codes (expires_at);
CREATE INDEX ix_oauth_codes_grant_id ON oauth_codes (grant_id);

-- The SHA-256 of a refresh token; the first use replaces it, and a second one soon after.
CREATE TABLE oauth_refresh_tokens (
    token_hash bytea NOT NULL,
    organization_id text NOT NULL,
    grant_id text NOT NULL,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    reused_at timestamptz,
    CONSTRAINT pk_oauth_refresh_tokens PRIMARY KEY (token_hash),
    CONSTRAINT fk_oauth_refresh_tokens_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_oauth_refresh_tokens_grant_id FOREIGN KEY (grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
);
CREATE INDEX ix_oauth_refresh_tokens_expires_at ON oauth_refresh_tokens (expires_at);
CREATE INDEX ix_oauth_refresh_tokens_grant_id ON oauth_refresh_tokens (grant_id);

-- A finished write under its client's key, and the reply that a retry gets again.
CREATE TABLE idempotency_keys (
    organization_id text NOT NULL,
    principal_id text NOT NULL,
    key_hash bytea NOT NULL,
    request_hash bytea NOT NULL,
    status integer NOT NULL,
    headers jsonb NOT NULL,
    body bytea,
    secret boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (organization_id, principal_id, key_hash)
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);

-- A verified webhook delivery of GitHub. Its id makes a second one of it a no-op (I11).
CREATE TABLE webhook_deliveries (
    delivery_id text NOT NULL,
    event text NOT NULL,
    installation_id bigint,
    payload jsonb NOT NULL,
    received_at timestamptz NOT NULL,
    processed_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_webhook_deliveries PRIMARY KEY (delivery_id)
);
CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_webhook_deliveries_received_at ON webhook_deliveries (received_at);

-- When a periodic task of the sweeper was last done, so that any number of sweepers do it once.
CREATE TABLE periodic_tasks (
    name text NOT NULL,
    done_at timestamptz NOT NULL,
    CONSTRAINT pk_periodic_tasks PRIMARY KEY (name)
);

-- A process that works. While it lives, it holds the advisory lock of its number on a connection of its own.
CREATE TABLE lease_holders (
    id integer GENERATED ALWAYS AS IDENTITY,
    started_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    kind text,
    beat_at timestamptz,
    stopped_at timestamptz,
    CONSTRAINT pk_lease_holders PRIMARY KEY (id)
);

-- One call: its points, and how much content it creates. Kept for an hour.
CREATE TABLE github_api_usage (
    id bigint GENERATED ALWAYS AS IDENTITY,
    installation_id bigint NOT NULL,
    at timestamptz NOT NULL,
    points integer NOT NULL,
    content integer NOT NULL,
    CONSTRAINT pk_github_api_usage PRIMARY KEY (id)
);
CREATE INDEX ix_github_api_usage_recent ON github_api_usage (installation_id, at);

-- The one row with the work of reading the log, and where the last reading ended (`rules/webhook_log.py`).
CREATE TABLE webhook_log (
    id smallint NOT NULL DEFAULT 1,
    since timestamptz NOT NULL,
    read_at timestamptz NOT NULL,
    last_id bigint,
    last_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_webhook_log PRIMARY KEY (id),
    CONSTRAINT ck_webhook_log_one_row CHECK (id = 1)
);

-- The one row that says where the database last ran; the view `present_database` says where it runs now.
CREATE TABLE database_identity (
    id smallint NOT NULL DEFAULT 1,
    system_identifier bigint NOT NULL,
    database_oid bigint NOT NULL,
    table_oid bigint NOT NULL,
    timeline integer NOT NULL,
    seen_at timestamptz NOT NULL,
    noticed_at timestamptz,
    difference text,
    shown_at timestamptz,
    CONSTRAINT pk_database_identity PRIMARY KEY (id),
    CONSTRAINT ck_database_identity_one_row CHECK (id = 1)
);

-- An installation has its id from GitHub; it belongs to one organisation at most.
CREATE TABLE installations (
    id bigint NOT NULL,
    organization_id text,
    account text NOT NULL,
    state text NOT NULL DEFAULT 'active',
    repository_selection text NOT NULL DEFAULT 'all',
    permissions jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    paused_until timestamptz,
    served_at timestamptz,
    synced_at timestamptz,
    status_version integer NOT NULL DEFAULT 0,
    content_counting text,
    content_learnt_at timestamptz,
    paused_since timestamptz,
    CONSTRAINT pk_installations PRIMARY KEY (id),
    CONSTRAINT fk_installations_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_installations_organization_id ON installations (organization_id);

-- A comparison of our repositories with those that an installation covers; due while one is requested.
CREATE TABLE repository_syncs (
    installation_id bigint NOT NULL,
    organization_id text NOT NULL,
    requested_at timestamptz NOT NULL,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_repository_syncs PRIMARY KEY (installation_id),
    CONSTRAINT fk_repository_syncs_installation_id FOREIGN KEY (installation_id) REFERENCES installations (id),
    CONSTRAINT fk_repository_syncs_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_repository_syncs_due ON repository_syncs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_repository_syncs_organization_id ON repository_syncs (organization_id);

-- A repository that an installation covers. Its id outlives renames and transfers.
CREATE TABLE repositories (
    id text NOT NULL,
    organization_id text NOT NULL,
    installation_id bigint NOT NULL,
    github_id bigint NOT NULL,
    node_id text NOT NULL,
    owner text NOT NULL,
    name text NOT NULL,
    default_branch text NOT NULL,
    private boolean NOT NULL,
    archived boolean NOT NULL DEFAULT false,
    enabled boolean NOT NULL DEFAULT false,
    auto_watch text[] NOT NULL DEFAULT '{}',
    former_names text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    synced_at timestamptz NOT NULL,
    removed_at timestamptz,
    former_globs text[] NOT NULL DEFAULT '{}',
    rulesets_authorized_by text,
    rulesets_authorized_at timestamptz,
    CONSTRAINT pk_repositories PRIMARY KEY (id),
    CONSTRAINT fk_repositories_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_repositories_installation_id FOREIGN KEY (installation_id) REFERENCES installations (id)
);
CREATE INDEX ix_repositories_former_names ON repositories USING gin (former_names);
CREATE INDEX ix_repositories_full_name ON repositories (organization_id, lower(owner || '/' || name));
CREATE INDEX ix_repositories_github_id ON repositories (github_id);
CREATE INDEX ix_repositories_installation ON repositories (installation_id);
CREATE INDEX ix_repositories_page ON repositories (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_repositories_github_id ON repositories (organization_id, github_id);

-- The branches that GitHub listed at `fetched_at`: a cache that all processes share.
CREATE TABLE remote_branch_lists (
    repository_id text NOT NULL,
    organization_id text NOT NULL,
    fetched_at timestamptz NOT NULL,
    branches jsonb NOT NULL,
    CONSTRAINT pk_remote_branch_lists PRIMARY KEY (repository_id),
    CONSTRAINT fk_remote_branch_lists_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id),
    CONSTRAINT fk_remote_branch_lists_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);

-- A branch whose merging can be frozen, and what the reconciler knows of it.
CREATE TABLE watched_branches (
    id text NOT NULL,
    organization_id text NOT NULL,
    repository_id text NOT NULL,
    name text NOT NULL,
    check_name text NOT NULL,
    exceptions_allowed boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    unwatched_at timestamptz,
    wanted_generation bigint NOT NULL DEFAULT '0'::bigint,
    written_generation bigint NOT NULL DEFAULT '0'::bigint,
    due_at timestamptz,
    merge_rank smallint NOT NULL DEFAULT '9'::smallint,
    read_back boolean NOT NULL DEFAULT false,
    lease_token text,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    never_watched boolean NOT NULL DEFAULT false,
    deferred_rank smallint,
    reread_at timestamptz,
    lease_holder integer,
    pattern_check_name text,
    outdated_since timestamptz,
    CONSTRAINT pk_watched_branches PRIMARY KEY (id),
    CONSTRAINT fk_watched_branches_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_watched_branches_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX ix_watched_branches_due ON watched_branches (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_watched_branches_outdated ON watched_branches (outdated_since)
    WHERE outdated_since IS NOT NULL;
CREATE INDEX ix_watched_branches_page ON watched_branches (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_watched_branches_name ON watched_branches (repository_id, name);

-- The commit that a branch pointed at when it was last read; due if it moved while a freeze covered the branch.
CREATE TABLE branch_tips (
    branch_id text NOT NULL,
    organization_id text NOT NULL,
    sha text NOT NULL,
    seen_at timestamptz NOT NULL,
    moved_since timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_branch_tips PRIMARY KEY (branch_id),
    CONSTRAINT fk_branch_tips_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id),
    CONSTRAINT fk_branch_tips_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
) WITH (fillfactor = 70);
CREATE INDEX ix_branch_tips_due ON branch_tips (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_branch_tips_organization_id ON branch_tips (organization_id);

-- A pull request into a watched branch. GitHub is the source of truth; this row mirrors it.
CREATE TABLE pull_requests (
    id text NOT NULL,
    organization_id text NOT NULL,
    repository_id text NOT NULL,
    number integer NOT NULL,
    title text NOT NULL,
    author text NOT NULL,
    url text NOT NULL,
    base_branch text NOT NULL,
    head_sha text NOT NULL,
    state text NOT NULL,
    merge_rank smallint NOT NULL,
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT pk_pull_requests PRIMARY KEY (id),
    CONSTRAINT fk_pull_requests_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_pull_requests_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_pull_requests_head ON pull_requests (repository_id, head_sha) WHERE state = 'open';
CREATE INDEX ix_pull_requests_open ON pull_requests (repository_id, base_branch) WHERE state = 'open';
CREATE UNIQUE INDEX uq_pull_requests_number ON pull_requests (repository_id, number);

-- Numbers the evaluations of verdicts: of two for one check, the later one counts.
CREATE SEQUENCE evaluations;

-- What we last wrote on a head under one check name. A row without an evaluation (0) only holds a write intent.
CREATE TABLE head_checks (
    repository_id text NOT NULL,
    check_name text NOT NULL,
    head_sha text NOT NULL,
    organization_id text NOT NULL,
    branch_id text NOT NULL,
    conclusion text NOT NULL,
    evaluation bigint NOT NULL,
    check_run_id bigint,
    summary_hash text NOT NULL,
    tracked boolean NOT NULL DEFAULT true,
    unconfirmed boolean NOT NULL DEFAULT false,
    written_at timestamptz NOT NULL,
    intent_leases text[] NOT NULL DEFAULT '{}',
    intent_until timestamptz,
    CONSTRAINT pk_head_checks PRIMARY KEY (repository_id, check_name, head_sha),
    CONSTRAINT fk_head_checks_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id),
    CONSTRAINT fk_head_checks_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_head_checks_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX ix_head_checks_standing ON head_checks (repository_id, check_name)
    WHERE conclusion = 'success' OR unconfirmed;
CREATE INDEX ix_head_checks_superseded ON head_checks (repository_id, check_name)
    WHERE NOT tracked AND (conclusion = 'success' OR unconfirmed);
CREATE INDEX ix_head_checks_tracked ON head_checks (repository_id, check_name) WHERE tracked;

-- A freeze, in force or ended. Whether it is in force follows from its instants; no column holds it (I6).
CREATE TABLE freezes (
    id text NOT NULL,
    organization_id text NOT NULL,
    reason text NOT NULL,
    scope jsonb NOT NULL,
    source text NOT NULL,
    started_at timestamptz NOT NULL,
    ends_at timestamptz,
    ended_at timestamptz,
    end_reason text,
    exceptions_allowed boolean NOT NULL,
    previewed_repo_count integer,
    impact_acknowledged boolean NOT NULL,
    schedule_id text,
    occurrence_id text,
    created_by jsonb NOT NULL,
    ended_by jsonb,
    enforced_at timestamptz,
    released_at timestamptz,
    targets_pending boolean NOT NULL DEFAULT false,
    claimed_by text,
    failing_since timestamptz,
    late_at timestamptz,
    first_enforced_at timestamptz,
    unprotected_causes text[] DEFAULT '{}',
    public_text text,
    CONSTRAINT pk_freezes PRIMARY KEY (id),
    CONSTRAINT fk_freezes_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_freezes_ends_at ON freezes (ends_at) WHERE ended_at IS NULL;
CREATE INDEX ix_freezes_failing_since ON freezes (id) WHERE failing_since IS NOT NULL;
CREATE INDEX ix_freezes_incomplete ON freezes (id)
    WHERE (ended_at IS NULL AND enforced_at IS NULL) OR (ended_at IS NOT NULL AND released_at IS NULL);
CREATE INDEX ix_freezes_page ON freezes (organization_id, started_at, id);
CREATE INDEX ix_freezes_running ON freezes (organization_id) WHERE ended_at IS NULL;
CREATE INDEX ix_freezes_schedule ON freezes (schedule_id, started_at, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX ix_freezes_targets_pending ON freezes (id) WHERE targets_pending;
CREATE UNIQUE INDEX uq_freezes_occurrence_id ON freezes (occurrence_id) WHERE occurrence_id IS NOT NULL;

-- One branch covered by one freeze, from the moment it is covered until the freeze ends (I14).
CREATE TABLE freeze_targets (
    id text NOT NULL,
    organization_id text NOT NULL,
    freeze_id text NOT NULL,
    branch_id text NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    operation text NOT NULL DEFAULT 'apply',
    generation bigint NOT NULL,
    heads_total integer NOT NULL DEFAULT 0,
    heads_written integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    next_attempt_at timestamptz,
    applied_at timestamptz,
    released_at timestamptz,
    CONSTRAINT pk_freeze_targets PRIMARY KEY (id),
    CONSTRAINT fk_freeze_targets_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_freeze_targets_freeze_id FOREIGN KEY (freeze_id) REFERENCES freezes (id),
    CONSTRAINT fk_freeze_targets_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX ix_freeze_targets_branch_id ON freeze_targets (branch_id);
CREATE INDEX ix_freeze_targets_covering ON freeze_targets (branch_id) WHERE operation = 'apply';
CREATE INDEX ix_freeze_targets_failed ON freeze_targets (organization_id, freeze_id)
    WHERE state = 'failed';
CREATE INDEX ix_freeze_targets_state ON freeze_targets (freeze_id, state);
CREATE INDEX ix_freeze_targets_unfinished ON freeze_targets (branch_id)
    WHERE state IN ('pending', 'releasing', 'failed');
CREATE UNIQUE INDEX uq_freeze_targets_branch ON freeze_targets (freeze_id, branch_id);

-- Windows that recur. A deleted one stays, for the freezes that it started.
CREATE TABLE schedules (
    id text NOT NULL,
    organization_id text NOT NULL,
    name text NOT NULL,
    scope jsonb NOT NULL,
    timezone text NOT NULL,
    recurrence jsonb NOT NULL,
    wall_clock_window jsonb NOT NULL,
    reason text NOT NULL,
    exceptions_allowed boolean NOT NULL,
    enabled boolean NOT NULL,
    allow_overlap boolean NOT NULL,
    source text NOT NULL,
    import_key text,
    created_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    planned_until timestamptz,
    planned_with text,
    windows tstzmultirange,
    overlaps_checked_at timestamptz,
    imported jsonb,
    public_text text,
    CONSTRAINT pk_schedules PRIMARY KEY (id),
    CONSTRAINT fk_schedules_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_schedules_overlaps ON schedules (overlaps_checked_at)
    WHERE enabled AND deleted_at IS NULL AND NOT allow_overlap;
CREATE INDEX ix_schedules_page ON schedules (organization_id, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_schedules_planned_until ON schedules (planned_until) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX ix_schedules_planned_with ON schedules (planned_with) WHERE enabled AND deleted_at IS NULL;
CREATE UNIQUE INDEX uq_schedules_import_key ON schedules (organization_id, import_key)
    WHERE import_key IS NOT NULL;

-- One window of a schedule in real time. Its state follows from its instants and its freeze; no column holds it.
CREATE TABLE occurrences (
    id text NOT NULL,
    organization_id text NOT NULL,
    schedule_id text NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    skip_reason text,
    skipped_by jsonb,
    verified_at timestamptz,
    started_at timestamptz,
    freeze_id text,
    due_at timestamptz,
    late boolean NOT NULL DEFAULT false,
    missed_at timestamptz,
    CONSTRAINT pk_occurrences PRIMARY KEY (id),
    CONSTRAINT fk_occurrences_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_occurrences_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id),
    CONSTRAINT fk_occurrences_freeze_id FOREIGN KEY (freeze_id) REFERENCES freezes (id)
);
CREATE INDEX ix_occurrences_due ON occurrences (starts_at)
    WHERE started_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL;
CREATE INDEX ix_occurrences_freeze_id ON occurrences (freeze_id) WHERE freeze_id IS NOT NULL;
CREATE INDEX ix_occurrences_long ON occurrences (organization_id, ends_at, starts_at)
    WHERE ends_at - starts_at > interval '8 days';
CREATE INDEX ix_occurrences_page ON occurrences (organization_id, starts_at, id) INCLUDE (ends_at, schedule_id);
CREATE INDEX ix_occurrences_planned ON occurrences (schedule_id, starts_at)
    WHERE started_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL;
CREATE INDEX ix_occurrences_skipped ON occurrences (organization_id, starts_at, id)
    WHERE skip_reason IS NOT NULL;
CREATE INDEX ix_occurrences_unsettled ON occurrences (organization_id, starts_at)
    WHERE started_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL;
CREATE UNIQUE INDEX uq_occurrences_starts_at ON occurrences (schedule_id, starts_at);

-- A window that was taken from the plan before it began, with the id that its occurrence had.
CREATE TABLE cancelled_windows (
    id text NOT NULL,
    organization_id text NOT NULL,
    schedule_id text NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    cancelled_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_cancelled_windows PRIMARY KEY (id),
    CONSTRAINT fk_cancelled_windows_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_cancelled_windows_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id)
);
CREATE INDEX ix_cancelled_windows_ends_at ON cancelled_windows (ends_at);
CREATE INDEX ix_cancelled_windows_organization_id ON cancelled_windows (organization_id, starts_at);
CREATE INDEX ix_cancelled_windows_schedule_id ON cancelled_windows (schedule_id);

-- One pull request, one freeze: requested, decided, and ended. Its state follows from its instants.
CREATE TABLE exceptions (
    id text NOT NULL,
    organization_id text NOT NULL,
    request_group_id text NOT NULL,
    freeze_id text NOT NULL,
    pull_request_id text NOT NULL,
    branch_id text NOT NULL,
    reason text NOT NULL,
    pin_to_head boolean NOT NULL,
    head_sha text,
    created_at timestamptz NOT NULL,
    requested_by jsonb,
    requested_at timestamptz,
    decision text,
    decided_by jsonb,
    decided_at timestamptz,
    decision_reason text,
    expires_at timestamptz,
    revoked_by jsonb,
    revoked_at timestamptz,
    expired_at timestamptz,
    used_at timestamptz,
    used_commit text,
    decided_through text,
    CONSTRAINT pk_exceptions PRIMARY KEY (id),
    CONSTRAINT fk_exceptions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_exceptions_freeze_id FOREIGN KEY (freeze_id) REFERENCES freezes (id),
    CONSTRAINT fk_exceptions_pull_request_id FOREIGN KEY (pull_request_id) REFERENCES pull_requests (id),
    CONSTRAINT fk_exceptions_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_exceptions_branch_id ON exceptions (branch_id);
CREATE INDEX ix_exceptions_expires_at ON exceptions (expires_at)
    WHERE decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX ix_exceptions_freeze_id ON exceptions (freeze_id);
CREATE INDEX ix_exceptions_group ON exceptions (request_group_id);
CREATE INDEX ix_exceptions_page ON exceptions (organization_id, created_at, id);
CREATE INDEX ix_exceptions_pending ON exceptions (organization_id, created_at, id)
    WHERE decision IS NULL AND revoked_at IS NULL AND expired_at IS NULL;
CREATE INDEX ix_exceptions_pull_request_id ON exceptions (pull_request_id);
CREATE UNIQUE INDEX uq_exceptions_open ON exceptions (freeze_id, pull_request_id, branch_id)
    WHERE decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL;

-- What the last probe found on a branch; a branch without a row was never probed.
CREATE TABLE branch_enforcement (
    branch_id text NOT NULL,
    organization_id text NOT NULL,
    light text NOT NULL DEFAULT 'amber',
    required boolean NOT NULL DEFAULT false,
    ruleset jsonb,
    integration_pinned boolean,
    bypass_actors jsonb,
    merge_queue jsonb,
    findings jsonb NOT NULL DEFAULT '[]',
    verified_at timestamptz,
    due_at timestamptz,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    lease_token text,
    lease_holder integer,
    last_error_code text,
    last_error_message text,
    own_rule boolean NOT NULL DEFAULT false,
    rule_requested_at timestamptz,
    decisive_check text,
    required_since timestamptz,
    required_until timestamptz,
    rules_read_at timestamptz,
    open_ways text[] NOT NULL DEFAULT '{deletion}',
    rules_reported_at timestamptz,
    CONSTRAINT pk_branch_enforcement PRIMARY KEY (branch_id),
    CONSTRAINT fk_branch_enforcement_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id),
    CONSTRAINT fk_branch_enforcement_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_branch_enforcement_due ON branch_enforcement (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_branch_enforcement_organization_id ON branch_enforcement (organization_id);

-- A ruleset at GitHub that this service created: it changes and removes no other.
CREATE TABLE written_rulesets (
    level text NOT NULL,
    ruleset_id bigint NOT NULL,
    organization_id text NOT NULL,
    installation_id bigint NOT NULL,
    repository_id text,
    check_name text NOT NULL,
    written_at timestamptz NOT NULL,
    forbids_deletion boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_written_rulesets PRIMARY KEY (level, ruleset_id),
    CONSTRAINT fk_written_rulesets_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_written_rulesets_installation_id FOREIGN KEY (installation_id) REFERENCES installations (id),
    CONSTRAINT fk_written_rulesets_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_written_rulesets_organization_id ON written_rulesets (organization_id);

-- The ruleset of a repository that keeps its frozen branches from being deleted, created or renamed.
CREATE TABLE frozen_branch_rulesets (
    repository_id text NOT NULL,
    organization_id text NOT NULL,
    ruleset_id bigint,
    writing jsonb,
    branch_names text[] NOT NULL DEFAULT '{}',
    written_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_frozen_branch_rulesets PRIMARY KEY (repository_id),
    CONSTRAINT fk_frozen_branch_rulesets_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id),
    CONSTRAINT fk_frozen_branch_rulesets_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_frozen_branch_rulesets_due ON frozen_branch_rulesets (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_frozen_branch_rulesets_organization_id ON frozen_branch_rulesets (organization_id);

-- A requested setup; a job writes its rulesets, or an administrator authorises that.
CREATE TABLE enforcement_setups (
    id text NOT NULL,
    organization_id text NOT NULL,
    scope jsonb NOT NULL,
    state text NOT NULL,
    requested_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    due_at timestamptz,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    total integer NOT NULL DEFAULT 0,
    written integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    state_hash bytea,
    code_verifier text,
    expires_at timestamptz,
    finished_at timestamptz,
    progress jsonb NOT NULL DEFAULT '{}',
    lease_token text,
    lease_holder integer,
    CONSTRAINT pk_enforcement_setups PRIMARY KEY (id),
    CONSTRAINT fk_enforcement_setups_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_enforcement_setups_due ON enforcement_setups (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_enforcement_setups_organization_id ON enforcement_setups (organization_id, created_at);
CREATE UNIQUE INDEX uq_enforcement_setups_state ON enforcement_setups (state_hash);

-- A push to a branch while a freeze covered it, and its classification.
CREATE TABLE frozen_branch_pushes (
    id text NOT NULL,
    organization_id text NOT NULL,
    branch_id text NOT NULL,
    sha text NOT NULL,
    kind text NOT NULL,
    landed_at timestamptz NOT NULL,
    found_at timestamptz NOT NULL,
    details jsonb NOT NULL,
    CONSTRAINT pk_frozen_branch_pushes PRIMARY KEY (id),
    CONSTRAINT fk_frozen_branch_pushes_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_frozen_branch_pushes_branch_id FOREIGN KEY (branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_frozen_branch_pushes_organization_id ON frozen_branch_pushes (organization_id, landed_at);
CREATE UNIQUE INDEX uq_frozen_branch_pushes_commit ON frozen_branch_pushes (branch_id, sha, landed_at);

-- A condition that needs attention, or an event that has to be known; one open item for each key.
CREATE TABLE attention_items (
    id text NOT NULL,
    organization_id text NOT NULL,
    key text NOT NULL,
    type text NOT NULL,
    severity text NOT NULL,
    since timestamptz NOT NULL,
    subject jsonb NOT NULL,
    message text NOT NULL,
    action jsonb NOT NULL,
    cleared_at timestamptz,
    CONSTRAINT pk_attention_items PRIMARY KEY (id),
    CONSTRAINT fk_attention_items_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_attention_items_page ON attention_items (organization_id, since, id)
    WHERE cleared_at IS NULL;
CREATE UNIQUE INDEX uq_attention_items_key ON attention_items (organization_id, key)
    WHERE cleared_at IS NULL;

-- Who did what to which object, when, and through which entrance.
CREATE TABLE audit_entries (
    id text NOT NULL,
    organization_id text NOT NULL,
    at timestamptz NOT NULL,
    action text NOT NULL,
    actor jsonb NOT NULL,
    source text NOT NULL,
    target jsonb NOT NULL,
    request_id text,
    details jsonb NOT NULL,
    actor_id text GENERATED ALWAYS AS (actor ->> 'id') STORED,
    target_id text GENERATED ALWAYS AS (target ->> 'id') STORED,
    CONSTRAINT pk_audit_entries PRIMARY KEY (id),
    CONSTRAINT fk_audit_entries_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_audit_entries_action ON audit_entries (organization_id, action, at, id);
CREATE INDEX ix_audit_entries_actor ON audit_entries (organization_id, actor_id, at, id);
CREATE INDEX ix_audit_entries_page ON audit_entries (organization_id, at, id);
CREATE INDEX ix_audit_entries_source ON audit_entries (organization_id, source, at, id);
CREATE INDEX ix_audit_entries_target ON audit_entries (organization_id, target_id, at, id);

-- The place of a committed entry in its organisation's chain: each hash covers the entry and the one before it.
CREATE TABLE audit_seals (
    organization_id text NOT NULL,
    sequence bigint NOT NULL,
    entry_id text NOT NULL,
    hash bytea NOT NULL,
    previous_hash bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    late boolean NOT NULL DEFAULT false,
    action text NOT NULL,
    actor_id text,
    target_id text,
    source text NOT NULL,
    CONSTRAINT pk_audit_seals PRIMARY KEY (organization_id, sequence),
    CONSTRAINT fk_audit_seals_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_audit_seals_action ON audit_seals (organization_id, action, sealed_at, sequence);
CREATE INDEX ix_audit_seals_actor ON audit_seals (organization_id, actor_id, sealed_at, sequence);
CREATE INDEX ix_audit_seals_late ON audit_seals (organization_id, sealed_at) WHERE late;
CREATE INDEX ix_audit_seals_page ON audit_seals (organization_id, sealed_at, sequence);
CREATE INDEX ix_audit_seals_source ON audit_seals (organization_id, source, sealed_at, sequence);
CREATE INDEX ix_audit_seals_target ON audit_seals (organization_id, target_id, sealed_at, sequence);
CREATE UNIQUE INDEX uq_audit_seals_entry_id ON audit_seals (entry_id);

-- The end of a range of seals that left the database after an export: the chain begins behind the last of them.
CREATE TABLE audit_removals (
    organization_id text NOT NULL,
    sequence bigint NOT NULL,
    hash bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    file_sha256 bytea NOT NULL,
    removed_by text NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT pk_audit_removals PRIMARY KEY (organization_id, sequence),
    CONSTRAINT fk_audit_removals_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);

-- An entry that waits for its seal. A trigger writes it with the entry, whatever wrote that.
CREATE TABLE audit_unsealed (
    entry_id text NOT NULL,
    organization_id text NOT NULL,
    CONSTRAINT pk_audit_unsealed PRIMARY KEY (entry_id),
    CONSTRAINT fk_audit_unsealed_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_audit_unsealed_organization_id ON audit_unsealed (organization_id);

-- A grant of a plan; it is in force until its end. A source that needs several tells them apart by reference.
CREATE TABLE plan_grants (
    organization_id text NOT NULL,
    source text NOT NULL,
    reference text NOT NULL DEFAULT '',
    plan text NOT NULL,
    until timestamptz,
    created_at timestamptz NOT NULL,
    announced_at timestamptz,
    CONSTRAINT pk_plan_grants PRIMARY KEY (organization_id, source, reference),
    CONSTRAINT fk_plan_grants_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_plan_grants_trials ON plan_grants (until) WHERE source = 'trial' AND announced_at IS NULL;

-- A person had a trial. It has no organisation, so that it outlives the deletion and the purge of one.
CREATE TABLE used_trials (
    person_hash bytea NOT NULL,
    used_at timestamptz NOT NULL,
    CONSTRAINT pk_used_trials PRIMARY KEY (person_hash)
);

-- A key of the hashes in `used_trials`, encrypted: it outlives the `SECRET_KEY` from which it was derived.
CREATE TABLE trial_hash_keys (
    id text NOT NULL,
    encrypted_key bytea NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_trial_hash_keys PRIMARY KEY (id)
);

-- The customer of an organisation at Stripe, and the work of reading it again.
CREATE TABLE stripe_customers (
    id text NOT NULL,
    organization_id text,
    created_at timestamptz NOT NULL,
    synced_at timestamptz,
    checkout_id text,
    visited_at timestamptz,
    invoices jsonb NOT NULL DEFAULT '[]',
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_stripe_customers PRIMARY KEY (id),
    CONSTRAINT fk_stripe_customers_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_stripe_customers_due ON stripe_customers (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX ix_stripe_customers_organization_id ON stripe_customers (organization_id);

-- A subscription as it was last read, and since when it is unpaid or unclear.
CREATE TABLE stripe_subscriptions (
    id text NOT NULL,
    organization_id text NOT NULL,
    state text NOT NULL,
    plan text,
    "interval" text NOT NULL,
    currency text NOT NULL,
    unit_amount integer,
    period_start timestamptz NOT NULL,
    period_end timestamptz NOT NULL,
    cancel_at timestamptz,
    created_at timestamptz NOT NULL,
    past_due_since timestamptz,
    unclear_since timestamptz,
    action_url text,
    announced_at timestamptz,
    CONSTRAINT pk_stripe_subscriptions PRIMARY KEY (id),
    CONSTRAINT fk_stripe_subscriptions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_stripe_subscriptions_organization_id ON stripe_subscriptions (organization_id);

-- A price of a plan in one currency.
CREATE TABLE stripe_prices (
    id text NOT NULL,
    currency text NOT NULL,
    plan text NOT NULL,
    "interval" text NOT NULL,
    unit_amount integer NOT NULL,
    tax_behavior text NOT NULL,
    on_sale boolean NOT NULL,
    is_default boolean NOT NULL,
    CONSTRAINT pk_stripe_prices PRIMARY KEY (id, currency)
);

-- The work of reading the prices again: one row.
CREATE TABLE stripe_catalogues (
    name text NOT NULL,
    synced_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_stripe_catalogues PRIMARY KEY (name)
);

-- Where events of an organisation go: a webhook endpoint, a channel of Slack, or the mails to its members.
CREATE TABLE notification_destinations (
    id text NOT NULL,
    organization_id text NOT NULL,
    channel text NOT NULL,
    sequence bigint NOT NULL,
    remind_before integer[] NOT NULL DEFAULT '{}'::integer[],
    due_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    CONSTRAINT pk_notification_destinations PRIMARY KEY (id),
    CONSTRAINT fk_notification_destinations_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_notification_destinations_due_at ON notification_destinations (due_at, id)
    WHERE due_at IS NOT NULL;
CREATE INDEX ix_notification_destinations_organization_id ON notification_destinations (organization_id);

-- A window that was announced to a destination, so many minutes before it begins: never twice.
CREATE TABLE reminders (
    destination_id text NOT NULL,
    occurrence_id text NOT NULL,
    minutes integer NOT NULL,
    organization_id text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_reminders PRIMARY KEY (destination_id, occurrence_id, minutes),
    CONSTRAINT fk_reminders_destination_id FOREIGN KEY (destination_id)
        REFERENCES notification_destinations (id) ON DELETE CASCADE,
    CONSTRAINT fk_reminders_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_reminders_created_at ON reminders (created_at);
CREATE INDEX ix_reminders_organization_id ON reminders (organization_id);

-- What a member chose to get mails of in one organisation; it ends with the membership.
CREATE TABLE mail_choices (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    kinds text[],
    remind_before integer[] NOT NULL DEFAULT '{}'::integer[],
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_mail_choices PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_mail_choices_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);

-- The workspace that an organisation is connected to, with the token of our bot there.
CREATE TABLE slack_connections (
    id text NOT NULL,
    organization_id text NOT NULL,
    team_id text NOT NULL,
    team_name text NOT NULL,
    bot_user_id text NOT NULL,
    scopes text[] NOT NULL,
    encrypted_tokens bytea,
    connected_by jsonb NOT NULL,
    connected_at timestamptz NOT NULL,
    lost_at timestamptz,
    lost_why text,
    removed_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_slack_connections PRIMARY KEY (id),
    CONSTRAINT fk_slack_connections_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_slack_connections_due ON slack_connections (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX uq_slack_connections_organization_id ON slack_connections (organization_id)
    WHERE removed_at IS NULL;
CREATE UNIQUE INDEX uq_slack_connections_team_id ON slack_connections (team_id)
    WHERE removed_at IS NULL AND lost_at IS NULL;

-- A person's Slack user: what they type and click in that workspace is theirs.
CREATE TABLE slack_links (
    organization_id text NOT NULL,
    team_id text NOT NULL,
    slack_user_id text NOT NULL,
    user_id text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_slack_links PRIMARY KEY (organization_id, team_id, slack_user_id),
    CONSTRAINT fk_slack_links_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_slack_links_user_id ON slack_links (organization_id, user_id);

-- A channel that gets messages: about which events, in which repositories, and how long before windows.
CREATE TABLE slack_subscriptions (
    id text NOT NULL,
    organization_id text NOT NULL,
    channel_id text NOT NULL,
    channel_name text NOT NULL,
    events text[] NOT NULL,
    patterns text[],
    remind_before integer[] NOT NULL,
    created_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    paused_at timestamptz,
    paused_why text,
    CONSTRAINT pk_slack_subscriptions PRIMARY KEY (id),
    CONSTRAINT fk_slack_subscriptions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_slack_subscriptions_organization_id ON slack_subscriptions (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_slack_subscriptions_channel_id ON slack_subscriptions (organization_id, channel_id);

-- A message of a channel, rendered from its facts when it is posted, and again when they change.
CREATE TABLE slack_messages (
    id text NOT NULL,
    organization_id text NOT NULL,
    subscription_id text NOT NULL,
    "position" bigint GENERATED BY DEFAULT AS IDENTITY,
    kind text NOT NULL,
    bundle text,
    subjects text[] NOT NULL,
    facts jsonb NOT NULL,
    useful_until timestamptz,
    reply_to text,
    created_at timestamptz NOT NULL,
    ts text,
    sent_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_slack_messages PRIMARY KEY (id),
    CONSTRAINT fk_slack_messages_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_slack_messages_subscription_id FOREIGN KEY (subscription_id)
        REFERENCES slack_subscriptions (id) ON DELETE CASCADE,
    CONSTRAINT fk_slack_messages_reply_to FOREIGN KEY (reply_to) REFERENCES slack_messages (id) ON DELETE SET NULL
);
CREATE INDEX ix_slack_messages_created_at ON slack_messages (created_at);
CREATE INDEX ix_slack_messages_due ON slack_messages (subscription_id, position) WHERE due_at IS NOT NULL;
CREATE INDEX ix_slack_messages_organization_id ON slack_messages (organization_id, due_at);
CREATE INDEX ix_slack_messages_reply_to ON slack_messages (reply_to);
CREATE INDEX ix_slack_messages_sent_at ON slack_messages (subscription_id, sent_at);
CREATE INDEX ix_slack_messages_subjects ON slack_messages USING gin (subjects);
CREATE UNIQUE INDEX uq_slack_messages_bundle ON slack_messages (subscription_id, bundle);

-- An address that an organisation has its events sent to. One that is deleted keeps neither address nor secret.
CREATE TABLE webhook_endpoints (
    id text NOT NULL,
    organization_id text NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL,
    remind_before integer[] NOT NULL,
    encrypted_secret bytea,
    encrypted_previous_secret bytea,
    previous_secret_ends_at timestamptz,
    enabled boolean NOT NULL,
    disabled_reason text,
    disabled_at timestamptz,
    failing_since timestamptz,
    last_failure_at timestamptz,
    created_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    CONSTRAINT pk_webhook_endpoints PRIMARY KEY (id),
    CONSTRAINT fk_webhook_endpoints_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_webhook_endpoints_page ON webhook_endpoints (organization_id, created_at, id);

-- One event for one endpoint, as it is sent with each attempt; it is kept for 30 days.
CREATE TABLE webhook_messages (
    id text NOT NULL,
    organization_id text NOT NULL,
    endpoint_id text NOT NULL,
    event text NOT NULL,
    entry_id text,
    sequence bigint,
    body text NOT NULL,
    created_at timestamptz NOT NULL,
    attempt_count integer NOT NULL DEFAULT 0,
    last_attempt_at timestamptz,
    last_status integer,
    last_answer text,
    delivered_at timestamptz,
    due_at timestamptz,
    lease_token text,
    lease_holder integer,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error_code text,
    last_error_message text,
    CONSTRAINT pk_webhook_messages PRIMARY KEY (id),
    CONSTRAINT fk_webhook_messages_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_webhook_messages_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints (id)
);
CREATE INDEX ix_webhook_messages_created_at ON webhook_messages (created_at);
CREATE INDEX ix_webhook_messages_due ON webhook_messages (endpoint_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_webhook_messages_organization_id ON webhook_messages (organization_id);
CREATE INDEX ix_webhook_messages_page ON webhook_messages (endpoint_id, created_at, id);
CREATE UNIQUE INDEX uq_webhook_messages_sequence ON webhook_messages (endpoint_id, sequence);

-- The SHA-256 of the secret in the address of a calendar, of everything, of one schedule or of one repository.
CREATE TABLE calendar_feeds (
    id text NOT NULL,
    organization_id text NOT NULL,
    user_id text NOT NULL,
    name text NOT NULL,
    schedule_id text,
    repository_id text,
    token_hash bytea NOT NULL,
    created_by jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT pk_calendar_feeds PRIMARY KEY (id),
    CONSTRAINT fk_calendar_feeds_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_calendar_feeds_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT fk_calendar_feeds_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id),
    CONSTRAINT fk_calendar_feeds_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_calendar_feeds_organization_id ON calendar_feeds (organization_id, created_at, id);
CREATE INDEX ix_calendar_feeds_repository_id ON calendar_feeds (repository_id);
CREATE INDEX ix_calendar_feeds_schedule_id ON calendar_feeds (schedule_id);
CREATE INDEX ix_calendar_feeds_user_id ON calendar_feeds (user_id);
CREATE UNIQUE INDEX uq_calendar_feeds_token_hash ON calendar_feeds (token_hash);
