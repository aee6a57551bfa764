"""Every branch has a check of its own; the check of a pattern becomes a second one, which its branches share.

Row-level security does not except the owner of the tables, so it is suspended for the statements that change rows. The
heads of branches with a pattern are due, to get their own check, and so are probes: the lights are amber until a rule
requires it. What is recorded of the patterns' checks stays, and they go on to be required and written.

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = ("watched_branches", "branch_enforcement", "head_checks")

UPGRADE = """
ALTER TABLE watched_branches ADD COLUMN pattern_check_name TEXT;
ALTER TABLE branch_enforcement
    ADD COLUMN own_rule BOOLEAN DEFAULT 'false' NOT NULL,
    ADD COLUMN rule_requested_at TIMESTAMP WITH TIME ZONE;
UPDATE watched_branches
SET pattern_check_name = check_name, check_name = 'change-freeze/' || name,
    wanted_generation = wanted_generation + 1, due_at = now(), attempts = 0, deferred_rank = NULL
WHERE position('*' IN check_name) > 0;
UPDATE branch_enforcement e
SET own_rule = e.required AND coalesce(e.integration_pinned, false)
FROM watched_branches b WHERE b.id = e.branch_id AND b.pattern_check_name IS NULL;
UPDATE branch_enforcement e
SET due_at = now(), attempts = 0, light = CASE e.light WHEN 'green' THEN 'amber' ELSE e.light END,
    findings = e.findings || jsonb_build_array(jsonb_build_object(
        'code', 'own_check_not_required', 'severity', 'warning',
        'message', 'No rule requires ' || b.check_name || ' yet. Set up enforcement for this branch.'))
FROM watched_branches b WHERE b.id = e.branch_id AND b.pattern_check_name IS NOT NULL;
"""
DOWNGRADE = """
UPDATE watched_branches SET check_name = pattern_check_name, wanted_generation = wanted_generation + 1, due_at = now()
WHERE pattern_check_name IS NOT NULL;
DELETE FROM head_checks h WHERE NOT EXISTS (
    SELECT FROM watched_branches b WHERE b.repository_id = h.repository_id AND b.check_name = h.check_name);
UPDATE branch_enforcement e SET due_at = now()
FROM watched_branches b WHERE b.id = e.branch_id AND b.pattern_check_name IS NOT NULL;
ALTER TABLE branch_enforcement DROP COLUMN own_rule, DROP COLUMN rule_requested_at;
ALTER TABLE watched_branches DROP COLUMN pattern_check_name;
"""


def upgrade() -> None:
    _change_rows(UPGRADE)


def downgrade() -> None:
    _change_rows(DOWNGRADE)


def _change_rows(statements: str) -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(statements)
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
