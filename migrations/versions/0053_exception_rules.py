"""Rules that let pull requests merge during a freeze, and which rule granted an exception.

Processes of the former release grant exceptions without a rule, and leave those that a rule has granted as they are:
they are pinned to a head like others. Nor do they record since when a head is known; what is not known meets no rule.

Revision ID: 0053
Revises: 0052
"""

from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE exception_rules (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    name TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    reason TEXT NOT NULL,
    scope JSONB NOT NULL,
    freezes TEXT NOT NULL,
    schedule_ids TEXT[] NOT NULL,
    allow JSONB NOT NULL,
    identities JSONB NOT NULL,
    per_freeze INTEGER,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_by JSONB NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_exception_rules PRIMARY KEY (id),
    CONSTRAINT fk_exception_rules_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_exception_rules_page ON exception_rules (organization_id, created_at, id);
CREATE UNIQUE INDEX uq_exception_rules_name ON exception_rules (organization_id, lower(name));
ALTER TABLE exception_rules ENABLE ROW LEVEL SECURITY;
ALTER TABLE exception_rules FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON exception_rules TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON exception_rules TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON exception_rules TO change_freeze_app, change_freeze_worker;
ALTER TABLE exceptions
    ADD COLUMN rule_id TEXT,
    ADD COLUMN rule_name TEXT,
    ADD CONSTRAINT fk_exceptions_rule_id
        FOREIGN KEY (rule_id) REFERENCES exception_rules (id) ON DELETE SET NULL NOT VALID;
ALTER TABLE pull_requests ADD COLUMN head_since TIMESTAMP WITH TIME ZONE;
"""


def upgrade() -> None:
    """Add the table, and the columns; the partial index is of no row yet, and read from a table of some thousand."""
    op.execute(TABLE)
    op.execute("CREATE INDEX ix_exceptions_rule_id ON exceptions (rule_id) WHERE rule_id IS NOT NULL")


def downgrade() -> None:
    """Drop all of it."""
    op.execute("ALTER TABLE pull_requests DROP COLUMN head_since")
    op.execute("ALTER TABLE exceptions DROP COLUMN rule_id, DROP COLUMN rule_name")
    op.execute("DROP TABLE exception_rules")
