"""Leased work has the same columns in every table, and names the process that holds the lease.

Withdrawals, the commits that branches point at and comparisons of repositories get tables of their own; mails, setups,
webhook deliveries, branches and probes keep theirs.

Revision ID: 0007
Revises: 0006
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

HOLDERS = """
CREATE TABLE lease_holders (
    id INTEGER GENERATED ALWAYS AS IDENTITY,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_lease_holders PRIMARY KEY (id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON lease_holders TO change_freeze_worker;
"""
LEASES = """
ALTER TABLE mails RENAME COLUMN last_error TO last_error_message;
ALTER TABLE mails
    ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER, ADD COLUMN last_error_code TEXT;
ALTER TABLE enforcement_setups ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER;
ALTER TABLE webhook_deliveries
    ADD COLUMN due_at TIMESTAMP WITH TIME ZONE, ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER,
    ADD COLUMN lease_until TIMESTAMP WITH TIME ZONE, ADD COLUMN last_error_code TEXT,
    ADD COLUMN last_error_message TEXT;
UPDATE webhook_deliveries SET due_at = received_at WHERE processed_at IS NULL AND attempts < 20;
DROP INDEX ix_webhook_deliveries_waiting;
CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (due_at) WHERE due_at IS NOT NULL;
ALTER TABLE watched_branches ADD COLUMN lease_holder INTEGER;
ALTER TABLE branch_enforcement RENAME COLUMN probe_due_at TO due_at;
ALTER TABLE branch_enforcement RENAME COLUMN probe_lease_until TO lease_until;
ALTER TABLE branch_enforcement RENAME COLUMN probe_attempts TO attempts;
ALTER TABLE branch_enforcement
    ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER,
    ADD COLUMN last_error_code TEXT, ADD COLUMN last_error_message TEXT;
"""
WITHDRAWALS = """
CREATE TABLE withdrawals (
    organization_id TEXT NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_withdrawals PRIMARY KEY (organization_id),
    CONSTRAINT fk_withdrawals_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_withdrawals_due ON withdrawals (due_at) WHERE due_at IS NOT NULL;
INSERT INTO withdrawals (organization_id, due_at, attempts)
    SELECT id, withdrawal_due_at, withdrawal_attempts FROM organizations
    WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
DROP INDEX ix_organizations_withdrawal;
ALTER TABLE organizations
    DROP COLUMN withdrawal_due_at, DROP COLUMN withdrawal_lease_until, DROP COLUMN withdrawal_attempts;
"""
TIPS = """
CREATE TABLE branch_tips (
    branch_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    sha TEXT NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    moved_since TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_branch_tips PRIMARY KEY (branch_id),
    CONSTRAINT fk_branch_tips_branch_id FOREIGN KEY(branch_id) REFERENCES watched_branches (id),
    CONSTRAINT fk_branch_tips_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_branch_tips_organization_id ON branch_tips (organization_id);
CREATE INDEX ix_branch_tips_due ON branch_tips (due_at) WHERE due_at IS NOT NULL;
INSERT INTO branch_tips (branch_id, organization_id, sha, seen_at, moved_since, due_at, attempts)
    SELECT id, organization_id, tip_sha, tip_seen_at, landings_since, landings_due_at, landings_attempts
    FROM watched_branches WHERE tip_sha IS NOT NULL AND tip_seen_at IS NOT NULL;
DROP INDEX ix_watched_branches_landings;
ALTER TABLE watched_branches
    DROP COLUMN tip_sha, DROP COLUMN tip_seen_at, DROP COLUMN landings_due_at, DROP COLUMN landings_since,
    DROP COLUMN landings_attempts;
ALTER TABLE branch_tips SET (fillfactor = 70);
"""
SYNCS = """
CREATE TABLE repository_syncs (
    installation_id BIGINT NOT NULL,
    organization_id TEXT NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT '0' NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_repository_syncs PRIMARY KEY (installation_id),
    CONSTRAINT fk_repository_syncs_installation_id FOREIGN KEY(installation_id) REFERENCES installations (id),
    CONSTRAINT fk_repository_syncs_organization_id FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_repository_syncs_organization_id ON repository_syncs (organization_id);
CREATE INDEX ix_repository_syncs_due ON repository_syncs (due_at) WHERE due_at IS NOT NULL;
INSERT INTO repository_syncs (installation_id, organization_id, requested_at, due_at)
    SELECT id, organization_id, sync_requested_at,
           CASE WHEN synced_at IS NULL OR synced_at < sync_requested_at THEN sync_requested_at END
    FROM installations WHERE organization_id IS NOT NULL AND sync_requested_at IS NOT NULL;
ALTER TABLE installations DROP COLUMN sync_requested_at, DROP COLUMN sync_started_at;
"""
RIGHTS = {
    "withdrawals": "SELECT, INSERT, UPDATE",
    "branch_tips": "SELECT",
    "repository_syncs": "SELECT, INSERT, UPDATE",
}
"""New table of an organisation → what the API may do in it."""

BEFORE = """
ALTER TABLE installations
    ADD COLUMN sync_requested_at TIMESTAMP WITH TIME ZONE, ADD COLUMN sync_started_at TIMESTAMP WITH TIME ZONE;
UPDATE installations i SET sync_requested_at = s.requested_at
    FROM repository_syncs s WHERE s.installation_id = i.id;
DROP TABLE repository_syncs;
ALTER TABLE watched_branches
    ADD COLUMN tip_sha TEXT, ADD COLUMN tip_seen_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN landings_due_at TIMESTAMP WITH TIME ZONE, ADD COLUMN landings_since TIMESTAMP WITH TIME ZONE,
    ADD COLUMN landings_attempts INTEGER DEFAULT '0' NOT NULL;
UPDATE watched_branches b SET tip_sha = t.sha, tip_seen_at = t.seen_at, landings_due_at = t.due_at,
    landings_since = t.moved_since, landings_attempts = t.attempts
    FROM branch_tips t WHERE t.branch_id = b.id;
CREATE INDEX ix_watched_branches_landings ON watched_branches (landings_due_at) WHERE landings_due_at IS NOT NULL;
DROP TABLE branch_tips;
ALTER TABLE branch_enforcement
    DROP COLUMN lease_token, DROP COLUMN lease_holder, DROP COLUMN last_error_code, DROP COLUMN last_error_message;
ALTER TABLE branch_enforcement RENAME COLUMN due_at TO probe_due_at;
ALTER TABLE branch_enforcement RENAME COLUMN lease_until TO probe_lease_until;
ALTER TABLE branch_enforcement RENAME COLUMN attempts TO probe_attempts;
ALTER TABLE watched_branches DROP COLUMN lease_holder;
ALTER TABLE organizations
    ADD COLUMN withdrawal_due_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN withdrawal_lease_until TIMESTAMP WITH TIME ZONE,
    ADD COLUMN withdrawal_attempts INTEGER DEFAULT '0' NOT NULL;
CREATE INDEX ix_organizations_withdrawal ON organizations (withdrawal_due_at) WHERE withdrawal_due_at IS NOT NULL;
UPDATE organizations o SET withdrawal_due_at = w.due_at, withdrawal_attempts = w.attempts
    FROM withdrawals w WHERE w.organization_id = o.id;
DROP TABLE withdrawals;
DROP INDEX ix_webhook_deliveries_due;
CREATE INDEX ix_webhook_deliveries_waiting ON webhook_deliveries (received_at) WHERE processed_at IS NULL;
ALTER TABLE webhook_deliveries
    DROP COLUMN due_at, DROP COLUMN lease_token, DROP COLUMN lease_holder, DROP COLUMN lease_until,
    DROP COLUMN last_error_code, DROP COLUMN last_error_message;
ALTER TABLE enforcement_setups DROP COLUMN lease_token, DROP COLUMN lease_holder;
ALTER TABLE mails DROP COLUMN lease_token, DROP COLUMN lease_holder, DROP COLUMN last_error_code;
ALTER TABLE mails RENAME COLUMN last_error_message TO last_error;
DROP TABLE lease_holders;
"""


def upgrade() -> None:
    for statements in (HOLDERS, LEASES, WITHDRAWALS, TIPS, SYNCS):
        op.execute(statements)
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


def downgrade() -> None:
    op.execute(BEFORE)
