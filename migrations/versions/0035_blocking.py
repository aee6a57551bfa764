"""What decides whether GitHub refuses: the check that a rule requires, ways left open, how long verdicts have waited.

Freezes in force are computed again: until then it is not known for what they were reported as unprotected (NULL), and
nothing is sent about them.

Revision ID: 0035
Revises: 0034
"""

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

UPGRADE = """
ALTER TABLE branch_enforcement ADD COLUMN decisive_check TEXT;
ALTER TABLE branch_enforcement ADD COLUMN required_since TIMESTAMP WITH TIME ZONE;
ALTER TABLE branch_enforcement ADD COLUMN required_until TIMESTAMP WITH TIME ZONE;
ALTER TABLE branch_enforcement ADD COLUMN rules_read_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE branch_enforcement ADD COLUMN open_ways TEXT[] NOT NULL DEFAULT '{deletion}';
UPDATE branch_enforcement SET rules_read_at = verified_at;
UPDATE branch_enforcement e
SET required_since = verified_at,
    decisive_check = CASE WHEN e.own_rule THEN b.check_name ELSE coalesce(b.pattern_check_name, b.check_name) END,
    open_ways = CASE WHEN e.integration_pinned THEN open_ways ELSE '{deletion,forgery}' END
FROM watched_branches b WHERE b.id = e.branch_id AND e.required;
ALTER TABLE watched_branches ADD COLUMN outdated_since TIMESTAMP WITH TIME ZONE;
UPDATE watched_branches SET outdated_since = now() WHERE wanted_generation > written_generation;
ALTER TABLE freezes ADD COLUMN first_enforced_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE freezes ADD COLUMN unprotected_causes TEXT[] DEFAULT '{}';
UPDATE freezes SET first_enforced_at = enforced_at WHERE enforced_at IS NOT NULL;
UPDATE freezes SET unprotected_causes = NULL WHERE ended_at IS NULL;
CREATE INDEX ix_head_checks_standing ON head_checks (repository_id, check_name)
    WHERE conclusion = 'success' OR unconfirmed;
"""
DOWNGRADE = """
DROP INDEX ix_head_checks_standing;
ALTER TABLE freezes DROP COLUMN first_enforced_at, DROP COLUMN unprotected_causes;
ALTER TABLE watched_branches DROP COLUMN outdated_since;
ALTER TABLE branch_enforcement DROP COLUMN decisive_check, DROP COLUMN required_since, DROP COLUMN required_until,
    DROP COLUMN rules_read_at, DROP COLUMN open_ways;
"""


def upgrade() -> None:
    """Add the columns and the index."""
    op.execute(UPGRADE)


def downgrade() -> None:
    """Remove them."""
    op.execute(DOWNGRADE)
