"""What the last pass found of each rule and pull request; GitHub's ids of these; heads whose time is not known.

A process of the former release changes the head of a pull request without saying since when it is known. A trigger
forgets the old time then, so that no label counts that was set for the head before.

Revision ID: 0054
Revises: 0053
"""

from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None

RESULTS = """
CREATE TABLE exception_rule_results (
    pull_request_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    outcome TEXT NOT NULL,
    conditions JSONB NOT NULL,
    judged_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_exception_rule_results PRIMARY KEY (pull_request_id, rule_id),
    CONSTRAINT fk_exception_rule_results_pull_request_id
        FOREIGN KEY (pull_request_id) REFERENCES pull_requests (id) ON DELETE CASCADE,
    CONSTRAINT fk_exception_rule_results_rule_id
        FOREIGN KEY (rule_id) REFERENCES exception_rules (id) ON DELETE CASCADE,
    CONSTRAINT fk_exception_rule_results_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_exception_rule_results_rule_id ON exception_rule_results (rule_id);
CREATE INDEX ix_exception_rule_results_organization_id ON exception_rule_results (organization_id);
ALTER TABLE exception_rule_results ENABLE ROW LEVEL SECURITY;
ALTER TABLE exception_rule_results FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON exception_rule_results TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON exception_rule_results TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON exception_rule_results TO change_freeze_app, change_freeze_worker;
"""
FORGET = """
CREATE FUNCTION forget_head_since() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.head_since := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER forget_head_since BEFORE UPDATE ON pull_requests FOR EACH ROW
    WHEN ((OLD.head_sha, OLD.base_branch, OLD.state) IS DISTINCT FROM (NEW.head_sha, NEW.base_branch, NEW.state)
          AND NEW.head_since IS NOT DISTINCT FROM OLD.head_since)
    EXECUTE FUNCTION forget_head_since();
"""


def upgrade() -> None:
    """Add the table, the column and the trigger."""
    op.execute(RESULTS)
    op.execute(FORGET)
    op.execute("ALTER TABLE pull_requests ADD COLUMN node_id TEXT")
    op.execute("ALTER TABLE exception_rules ADD COLUMN facts_changed_at TIMESTAMP WITH TIME ZONE")


def downgrade() -> None:
    """Drop all of it."""
    op.execute("ALTER TABLE exception_rules DROP COLUMN facts_changed_at")
    op.execute("ALTER TABLE pull_requests DROP COLUMN node_id")
    op.execute("DROP TRIGGER forget_head_since ON pull_requests")
    op.execute("DROP FUNCTION forget_head_since()")
    op.execute("DROP TABLE exception_rule_results")
