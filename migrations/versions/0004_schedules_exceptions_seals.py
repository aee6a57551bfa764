"""Schedules and their occurrences, exceptions of single pull requests, and the seals of the audit.

Revision ID: 0004
Revises: 0003
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE schedules (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    name TEXT NOT NULL,
    scope JSONB NOT NULL,
    timezone TEXT NOT NULL,
    recurrence JSONB NOT NULL,
    wall_clock_window JSONB NOT NULL,
    reason TEXT NOT NULL,
    exceptions_allowed BOOLEAN NOT NULL,
    enabled BOOLEAN NOT NULL,
    allow_overlap BOOLEAN NOT NULL,
    source TEXT NOT NULL,
    import_key TEXT,
    import_digest TEXT,
    created_by JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    planned_until TIMESTAMP WITH TIME ZONE,
    planned_with TEXT,
    windows TSTZMULTIRANGE,
    overlaps_looked_for_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_schedules PRIMARY KEY (id),
    CONSTRAINT fk_schedules_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_schedules_page ON schedules (organization_id, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX uq_schedules_import_key ON schedules (organization_id, import_key)
    WHERE import_key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX ix_schedules_planned_until ON schedules (planned_until) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX ix_schedules_planned_with ON schedules (planned_with) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX ix_schedules_overlaps ON schedules (overlaps_looked_for_at)
    WHERE enabled AND deleted_at IS NULL AND NOT allow_overlap;
CREATE TABLE occurrences (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    skip_reason TEXT,
    skipped_by JSONB,
    verified_at TIMESTAMP WITH TIME ZONE,
    begun_at TIMESTAMP WITH TIME ZONE,
    freeze_id TEXT,
    due_at TIMESTAMP WITH TIME ZONE,
    late BOOLEAN DEFAULT 'false' NOT NULL,
    missed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_occurrences PRIMARY KEY (id),
    CONSTRAINT fk_occurrences_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_occurrences_schedule_id FOREIGN KEY(schedule_id) REFERENCES schedules (id),
    CONSTRAINT fk_occurrences_freeze_id FOREIGN KEY(freeze_id) REFERENCES freezes (id)
);
CREATE UNIQUE INDEX uq_occurrences_starts_at ON occurrences (schedule_id, starts_at);
CREATE INDEX ix_occurrences_page ON occurrences (organization_id, starts_at, id) INCLUDE (ends_at, schedule_id);
CREATE INDEX ix_occurrences_skipped ON occurrences (organization_id, starts_at, id) WHERE skip_reason IS NOT NULL;
CREATE INDEX ix_occurrences_long ON occurrences (organization_id, ends_at, starts_at)
    WHERE ends_at - starts_at > interval '8 days';
CREATE INDEX ix_occurrences_freeze_id ON occurrences (freeze_id) WHERE freeze_id IS NOT NULL;
CREATE INDEX ix_occurrences_planned ON occurrences (schedule_id, starts_at)
    WHERE begun_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL;
CREATE INDEX ix_occurrences_due ON occurrences (starts_at)
    WHERE begun_at IS NULL AND skip_reason IS NULL AND missed_at IS NULL;
CREATE INDEX ix_freezes_schedule ON freezes (schedule_id, started_at, id) WHERE schedule_id IS NOT NULL;
CREATE UNIQUE INDEX uq_freezes_occurrence_id ON freezes (occurrence_id) WHERE occurrence_id IS NOT NULL;
ALTER TABLE freezes ADD COLUMN partly_covered BOOLEAN DEFAULT 'false' NOT NULL;
CREATE INDEX ix_freezes_partly_covered ON freezes (id) WHERE partly_covered;
CREATE INDEX ix_freeze_targets_failed ON freeze_targets (organization_id, freeze_id) WHERE state = 'failed';
ALTER TABLE installations ADD COLUMN paused_since TIMESTAMP WITH TIME ZONE;
CREATE TABLE exceptions (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    request_group_id TEXT NOT NULL,
    freeze_id TEXT NOT NULL,
    pull_request_id TEXT NOT NULL,
    branch_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    pin_to_head BOOLEAN NOT NULL,
    head_sha TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    requested_by JSONB,
    requested_at TIMESTAMP WITH TIME ZONE,
    decision TEXT,
    decided_by JSONB,
    decided_at TIMESTAMP WITH TIME ZONE,
    decision_reason TEXT,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_by JSONB,
    revoked_at TIMESTAMP WITH TIME ZONE,
    expired_at TIMESTAMP WITH TIME ZONE,
    used_at TIMESTAMP WITH TIME ZONE,
    used_commit TEXT,
    CONSTRAINT pk_exceptions PRIMARY KEY (id),
    CONSTRAINT fk_exceptions_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_exceptions_freeze_id FOREIGN KEY(freeze_id) REFERENCES freezes (id),
    CONSTRAINT fk_exceptions_pull_request_id FOREIGN KEY(pull_request_id) REFERENCES pull_requests (id),
    CONSTRAINT fk_exceptions_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id)
);
CREATE INDEX ix_exceptions_page ON exceptions (organization_id, created_at, id);
CREATE INDEX ix_exceptions_pending ON exceptions (organization_id, created_at, id)
    WHERE decision IS NULL AND revoked_at IS NULL AND expired_at IS NULL;
CREATE INDEX ix_exceptions_group ON exceptions (request_group_id);
CREATE INDEX ix_exceptions_freeze_id ON exceptions (freeze_id);
CREATE INDEX ix_exceptions_pull_request_id ON exceptions (pull_request_id);
CREATE INDEX ix_exceptions_branch_id ON exceptions (branch_id);
CREATE UNIQUE INDEX uq_exceptions_open ON exceptions (freeze_id, pull_request_id, branch_id)
    WHERE decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL;
CREATE INDEX ix_exceptions_expires_at ON exceptions (expires_at)
    WHERE decision IS DISTINCT FROM 'denied' AND revoked_at IS NULL AND expired_at IS NULL AND expires_at IS NOT NULL;
CREATE TABLE audit_seals (
    organization_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    entry_id TEXT NOT NULL,
    hash BYTEA NOT NULL,
    previous_hash BYTEA NOT NULL,
    sealed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    late BOOLEAN DEFAULT 'false' NOT NULL,
    action TEXT NOT NULL,
    actor_id TEXT,
    target_id TEXT,
    source TEXT NOT NULL,
    CONSTRAINT pk_audit_seals PRIMARY KEY (organization_id, sequence),
    CONSTRAINT fk_audit_seals_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX uq_audit_seals_entry_id ON audit_seals (entry_id);
CREATE INDEX ix_audit_seals_page ON audit_seals (organization_id, sealed_at, sequence);
CREATE INDEX ix_audit_seals_action ON audit_seals (organization_id, action, sealed_at, sequence);
CREATE INDEX ix_audit_seals_actor ON audit_seals (organization_id, actor_id, sealed_at, sequence);
CREATE INDEX ix_audit_seals_target ON audit_seals (organization_id, target_id, sealed_at, sequence);
CREATE INDEX ix_audit_seals_source ON audit_seals (organization_id, source, sealed_at, sequence);
CREATE INDEX ix_audit_seals_late ON audit_seals (organization_id, sealed_at) WHERE late;
CREATE TABLE audit_unsealed (
    entry_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    CONSTRAINT pk_audit_unsealed PRIMARY KEY (entry_id),
    CONSTRAINT fk_audit_unsealed_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_audit_unsealed_organization_id ON audit_unsealed (organization_id);
ALTER TABLE audit_entries
    ADD COLUMN actor_id TEXT GENERATED ALWAYS AS (actor ->> 'id') STORED,
    ADD COLUMN target_id TEXT GENERATED ALWAYS AS (target ->> 'id') STORED;
-- From here on nobody else writes an entry until the trigger is there.
INSERT INTO audit_unsealed (entry_id, organization_id) SELECT id, organization_id FROM audit_entries;
CREATE INDEX ix_audit_entries_action ON audit_entries (organization_id, action, at, id);
CREATE INDEX ix_audit_entries_actor ON audit_entries (organization_id, actor_id, at, id);
CREATE INDEX ix_audit_entries_target ON audit_entries (organization_id, target_id, at, id);
CREATE INDEX ix_audit_entries_source ON audit_entries (organization_id, source, at, id);
"""

# Every entry waits for its seal from the very transaction that writes it, whoever writes it.
TRIGGER = """
CREATE FUNCTION await_seal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO audit_unsealed (entry_id, organization_id) SELECT id, organization_id FROM fresh;
    RETURN NULL;
END $$;
ALTER FUNCTION await_seal() OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION await_seal() FROM PUBLIC;
CREATE TRIGGER await_seal AFTER INSERT ON audit_entries REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
    EXECUTE FUNCTION await_seal();
"""

# Tables whose rows belong to one organisation, and what the application may do with those of its own.
RIGHTS = {
    "schedules": "SELECT, INSERT, UPDATE",
    "occurrences": "SELECT, INSERT, UPDATE, DELETE",
    "exceptions": "SELECT, INSERT, UPDATE",
    "audit_seals": "SELECT",
    "audit_unsealed": "SELECT",
}

# Seals are never changed nor removed, but with the data of an organisation that was deleted.
SEALS = """
CREATE POLICY only_of_the_deleted ON audit_seals AS RESTRICTIVE FOR DELETE TO change_freeze_worker
    USING (EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL));
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table, rights in RIGHTS.items():
        own = "organization_id = current_setting('app.organization_id', true)"
        all_rights = "SELECT, INSERT, DELETE" if table.startswith("audit_") else "SELECT, INSERT, UPDATE, DELETE"
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_organization ON {table} TO change_freeze_app USING ({own}) WITH CHECK ({own})")
        op.execute(
            f"CREATE POLICY every_organization ON {table} TO change_freeze_worker USING (true) WITH CHECK (true)"
        )
        op.execute(f"GRANT {rights} ON {table} TO change_freeze_app")
        op.execute(f"GRANT {all_rights} ON {table} TO change_freeze_worker")
    op.execute(SEALS)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its function
    op.execute(TRIGGER)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    op.execute("DROP TRIGGER await_seal ON audit_entries")
    op.execute("DROP FUNCTION await_seal()")
    op.execute(
        "DROP INDEX ix_audit_entries_action, ix_audit_entries_actor, ix_audit_entries_target, ix_audit_entries_source, "
        "ix_freezes_schedule, uq_freezes_occurrence_id, ix_freeze_targets_failed"
    )
    op.execute("ALTER TABLE freezes DROP COLUMN partly_covered")
    op.execute("ALTER TABLE installations DROP COLUMN paused_since")
    op.execute("ALTER TABLE audit_entries DROP COLUMN actor_id, DROP COLUMN target_id")
    op.execute("DROP TABLE audit_unsealed, audit_seals, exceptions, occurrences, schedules")
