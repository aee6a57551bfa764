"""Requested comparisons of repositories are leased work in a table of their own.

Revision ID: 0011
Revises: 0010
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

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
ALTER TABLE repository_syncs ENABLE ROW LEVEL SECURITY;
ALTER TABLE repository_syncs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON repository_syncs TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON repository_syncs TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON repository_syncs TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON repository_syncs TO change_freeze_worker;
"""
BEFORE = """
ALTER TABLE installations
    ADD COLUMN sync_requested_at TIMESTAMP WITH TIME ZONE, ADD COLUMN sync_started_at TIMESTAMP WITH TIME ZONE;
UPDATE installations i SET sync_requested_at = s.requested_at
    FROM repository_syncs s WHERE s.installation_id = i.id;
DROP TABLE repository_syncs;
"""


def upgrade() -> None:
    op.execute(SYNCS)


def downgrade() -> None:
    op.execute(BEFORE)
