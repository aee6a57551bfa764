"""The rulesets that keep frozen branches from being deleted, created or renamed: one of each repository.

Repositories with branches that are frozen now get theirs at once. A setup may forbid deletion at all times: it is
recorded which rules against deletion are ours.

Revision ID: 0036
Revises: 0035
"""

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE frozen_branch_rulesets (
    repository_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    ruleset_id BIGINT,
    writing JSONB,
    branch_names TEXT[] DEFAULT '{}' NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_frozen_branch_rulesets PRIMARY KEY (repository_id),
    CONSTRAINT fk_frozen_branch_rulesets_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_frozen_branch_rulesets_repository_id FOREIGN KEY (repository_id) REFERENCES repositories (id)
);
CREATE INDEX ix_frozen_branch_rulesets_due ON frozen_branch_rulesets (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_frozen_branch_rulesets_organization_id ON frozen_branch_rulesets (organization_id);
ALTER TABLE written_rulesets ADD COLUMN forbids_deletion BOOLEAN NOT NULL DEFAULT false;
INSERT INTO frozen_branch_rulesets (repository_id, organization_id, due_at)
SELECT DISTINCT b.repository_id, b.organization_id, now()
FROM freeze_targets t
JOIN freezes f ON f.id = t.freeze_id AND f.ended_at IS NULL
JOIN watched_branches b ON b.id = t.branch_id;
"""

# Freezes that start or end request the work; only jobs do it.
RIGHTS = """
ALTER TABLE frozen_branch_rulesets ENABLE ROW LEVEL SECURITY;
ALTER TABLE frozen_branch_rulesets FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON frozen_branch_rulesets TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON frozen_branch_rulesets TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (due_at, attempts) ON frozen_branch_rulesets TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON frozen_branch_rulesets TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the table and the column, and make the repositories with frozen branches due."""
    op.execute(TABLE)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Remove both; rulesets that are at GitHub stay there."""
    op.execute("DROP TABLE frozen_branch_rulesets")
    op.execute("ALTER TABLE written_rulesets DROP COLUMN forbids_deletion")
