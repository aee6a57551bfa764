"""Work that is leased has the same columns in every table, and names the process that holds the lease.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"
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
RIGHTS = {"withdrawals": "SELECT, INSERT, UPDATE"}

BEFORE = """
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
    op.execute(HOLDERS)
    op.execute(LEASES)
    op.execute(WITHDRAWALS)
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
