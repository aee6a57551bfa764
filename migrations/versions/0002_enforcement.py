"""Enforcement: what the code host's rules require, the rules that we wrote, what landed, what needs attention.

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = """
ALTER TABLE repositories ADD COLUMN former_globs TEXT[] DEFAULT '{}' NOT NULL;
ALTER TABLE installations
    ADD COLUMN examination INTEGER DEFAULT '0' NOT NULL,
    ADD COLUMN content_counting TEXT,
    ADD COLUMN content_learnt_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE watched_branches
    ADD COLUMN never_watched BOOLEAN DEFAULT 'false' NOT NULL,
    ADD COLUMN waiting_rank SMALLINT,
    ADD COLUMN tip_sha TEXT,
    ADD COLUMN tip_seen_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN landings_due_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN landings_since TIMESTAMP WITH TIME ZONE,
    ADD COLUMN landings_attempts INTEGER DEFAULT '0' NOT NULL,
    ADD COLUMN look_again_at TIMESTAMP WITH TIME ZONE;
CREATE INDEX ix_watched_branches_landings ON watched_branches (landings_due_at) WHERE landings_due_at IS NOT NULL;
CREATE INDEX ix_repositories_github_id ON repositories (github_id);
CREATE INDEX ix_freezes_incomplete ON freezes (id)
    WHERE (ended_at IS NULL AND enforced_at IS NULL) OR (ended_at IS NOT NULL AND released_at IS NULL);
"""

TABLES = """
CREATE TABLE spendings (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    installation_id BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    points INTEGER NOT NULL,
    content INTEGER NOT NULL,
    CONSTRAINT pk_spendings PRIMARY KEY (id)
);
CREATE INDEX ix_spendings_recent ON spendings (installation_id, at);
CREATE TABLE branch_enforcement (
    branch_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    light TEXT DEFAULT 'amber' NOT NULL,
    required BOOLEAN DEFAULT 'false' NOT NULL,
    ruleset JSONB,
    integration_pinned BOOLEAN,
    bypass_actors JSONB,
    merge_queue JSONB,
    findings JSONB DEFAULT '[]' NOT NULL,
    verified_at TIMESTAMP WITH TIME ZONE,
    probe_due_at TIMESTAMP WITH TIME ZONE,
    probe_lease_until TIMESTAMP WITH TIME ZONE,
    probe_attempts INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_branch_enforcement PRIMARY KEY (branch_id),
    CONSTRAINT fk_branch_enforcement_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id),
    CONSTRAINT fk_branch_enforcement_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_branch_enforcement_due ON branch_enforcement (probe_due_at) WHERE probe_due_at IS NOT NULL;
CREATE INDEX ix_branch_enforcement_organization_id ON branch_enforcement (organization_id);
CREATE TABLE written_rulesets (
    level TEXT NOT NULL,
    ruleset_id BIGINT NOT NULL,
    organization_id TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    repository_id TEXT,
    check_name TEXT NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_written_rulesets PRIMARY KEY (level, ruleset_id),
    CONSTRAINT fk_written_rulesets_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_written_rulesets_installation_id FOREIGN KEY(installation_id) REFERENCES installations (id),
    CONSTRAINT fk_written_rulesets_repository_id FOREIGN KEY(repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_written_rulesets_organization_id ON written_rulesets (organization_id);
CREATE TABLE enforcement_setups (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    scope JSONB NOT NULL,
    state TEXT NOT NULL,
    requested_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    total INTEGER DEFAULT '0' NOT NULL,
    written INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    state_hash BYTEA,
    code_verifier TEXT,
    expires_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    progress JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_enforcement_setups PRIMARY KEY (id),
    CONSTRAINT fk_enforcement_setups_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_enforcement_setups_due ON enforcement_setups (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_enforcement_setups_organization_id ON enforcement_setups (organization_id, created_at);
CREATE UNIQUE INDEX uq_enforcement_setups_state ON enforcement_setups (state_hash);
CREATE TABLE landings (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    branch_id TEXT NOT NULL,
    sha TEXT NOT NULL,
    kind TEXT NOT NULL,
    landed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    found_at TIMESTAMP WITH TIME ZONE NOT NULL,
    details JSONB NOT NULL,
    CONSTRAINT pk_landings PRIMARY KEY (id),
    CONSTRAINT fk_landings_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_landings_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_landings_organization_id ON landings (organization_id, landed_at);
CREATE UNIQUE INDEX uq_landings_commit ON landings (branch_id, sha, landed_at);
CREATE TABLE attention_items (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    severity TEXT NOT NULL,
    since TIMESTAMP WITH TIME ZONE NOT NULL,
    subject JSONB NOT NULL,
    message TEXT NOT NULL,
    action JSONB NOT NULL,
    cleared_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_attention_items PRIMARY KEY (id),
    CONSTRAINT fk_attention_items_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_attention_items_page ON attention_items (organization_id, since, id) WHERE cleared_at IS NULL;
CREATE UNIQUE INDEX uq_attention_items_key ON attention_items (organization_id, key) WHERE cleared_at IS NULL;
"""

# Tables whose rows belong to one organisation, and what the application may do with them.
RIGHTS = {
    "branch_enforcement": "SELECT, INSERT, UPDATE",
    "written_rulesets": "SELECT, INSERT, UPDATE, DELETE",
    "enforcement_setups": "SELECT, INSERT, UPDATE",
    "landings": "SELECT",
    "attention_items": "SELECT, INSERT, UPDATE",
}

OTHERS = """
GRANT SELECT, INSERT, DELETE ON spendings TO change_freeze_worker;
GRANT UPDATE (summary_hash) ON head_checks TO change_freeze_app;
"""

BRANCH_COLUMNS = (
    "never_watched",
    "waiting_rank",
    "tip_sha",
    "tip_seen_at",
    "landings_due_at",
    "landings_since",
    "landings_attempts",
    "look_again_at",
)
DROPPED = ("attention_items", "landings", "enforcement_setups", "written_rulesets", "branch_enforcement", "spendings")


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute(TABLES)
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
    op.execute(OTHERS)


def downgrade() -> None:
    op.execute("REVOKE UPDATE (summary_hash) ON head_checks FROM change_freeze_app")
    op.execute("DROP TABLE " + ", ".join(DROPPED))
    op.execute("DROP INDEX ix_watched_branches_landings, ix_repositories_github_id, ix_freezes_incomplete")
    for table, columns in (
        ("watched_branches", BRANCH_COLUMNS),
        ("installations", ("examination", "content_counting", "content_learnt_at")),
        ("repositories", ("former_globs",)),
    ):
        op.execute(f"ALTER TABLE {table} " + ", ".join(f"DROP COLUMN {column}" for column in columns))
