"""A stop of many repositories that one ruleset of their organisation carries.

Processes of the former release make stops in repositories alone, as if no repository were left to its organisation.

Revision ID: 0051
Revises: 0050
"""

from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE organization_stops (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    repository_ids TEXT[] DEFAULT '{}' NOT NULL,
    freed_ids TEXT[] DEFAULT '{}' NOT NULL,
    ruleset_id BIGINT,
    writing JSONB,
    branch_names TEXT[] DEFAULT '{}' NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE,
    node_id TEXT,
    may_stop BOOLEAN DEFAULT false NOT NULL,
    stop_context TEXT,
    stop_written_at TIMESTAMP WITH TIME ZONE,
    stop_in_force_at TIMESTAMP WITH TIME ZONE,
    stop_ending_at TIMESTAMP WITH TIME ZONE,
    stop_refused_at TIMESTAMP WITH TIME ZONE,
    stop_passed TEXT[] DEFAULT '{}' NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_organization_stops PRIMARY KEY (id),
    CONSTRAINT fk_organization_stops_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_organization_stops_installation_id FOREIGN KEY (installation_id) REFERENCES installations (id)
);
CREATE INDEX ix_organization_stops_installation_id ON organization_stops (installation_id);
CREATE INDEX ix_organization_stops_organization_id ON organization_stops (organization_id);
ALTER TABLE organization_stops ENABLE ROW LEVEL SECURITY;
ALTER TABLE organization_stops FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON organization_stops TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON organization_stops TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT ON organization_stops TO change_freeze_app;
GRANT UPDATE (due_at, attempts, installation_id) ON organization_stops TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON organization_stops TO change_freeze_worker;
ALTER TABLE frozen_branch_rulesets
    ADD COLUMN organization_stop_id TEXT,
    ADD CONSTRAINT fk_frozen_branch_rulesets_organization_stop_id
        FOREIGN KEY (organization_stop_id) REFERENCES organization_stops (id) NOT VALID;
"""


def upgrade() -> None:
    """Add the table, and which repositories leave their stop to it; the index is of a table of some thousand rows."""
    op.execute(TABLE)
    op.execute(
        "CREATE INDEX ix_frozen_branch_rulesets_organization_stop_id ON frozen_branch_rulesets (organization_stop_id) "
        "WHERE organization_stop_id IS NOT NULL"
    )


def downgrade() -> None:
    """Drop both."""
    op.execute("ALTER TABLE frozen_branch_rulesets DROP COLUMN organization_stop_id")
    op.execute("DROP TABLE organization_stops")
