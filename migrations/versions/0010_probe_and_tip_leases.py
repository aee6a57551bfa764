"""Probes have the columns of leased work; the commits that branches point at have a table of their own.

Revision ID: 0010
Revises: 0009
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

PROBES = """
ALTER TABLE branch_enforcement RENAME COLUMN probe_due_at TO due_at;
ALTER TABLE branch_enforcement RENAME COLUMN probe_lease_until TO lease_until;
ALTER TABLE branch_enforcement RENAME COLUMN probe_attempts TO attempts;
ALTER TABLE branch_enforcement
    ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER,
    ADD COLUMN last_error_code TEXT, ADD COLUMN last_error_message TEXT;
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
ALTER TABLE branch_tips ENABLE ROW LEVEL SECURITY;
ALTER TABLE branch_tips FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON branch_tips TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON branch_tips TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT ON branch_tips TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON branch_tips TO change_freeze_worker;
"""
BEFORE = """
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
"""


def upgrade() -> None:
    op.execute(PROBES)
    op.execute(TIPS)


def downgrade() -> None:
    op.execute(BEFORE)
