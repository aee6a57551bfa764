"""A stop holds frozen branches until their checks are written: what rulesets require for it, and where it is in force.

Processes of the former release write no stop. They leave one that is on as they found it, as a rule that people added.

Revision ID: 0050
Revises: 0049
"""

from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

COLUMNS = {
    "frozen_branch_rulesets": (
        "node_id TEXT",
        "may_stop BOOLEAN DEFAULT false NOT NULL",
        "stop_context TEXT",
        "stop_written_at TIMESTAMP WITH TIME ZONE",
        "stop_in_force_at TIMESTAMP WITH TIME ZONE",
        "stop_ending_at TIMESTAMP WITH TIME ZONE",
        "stop_refused_at TIMESTAMP WITH TIME ZONE",
        "stop_passed TEXT[] DEFAULT '{}' NOT NULL",
    ),
    "branch_enforcement": ("stop TEXT",),
    "installations": ("refused_until TIMESTAMP WITH TIME ZONE",),
    "freezes": ("blocked_at TIMESTAMP WITH TIME ZONE",),
}
# As in 0047: a reading that only lengthens for how long the rules count changes no answer.
READ_IN_TIME = (
    "coalesce(NEW.rules_read_at BETWEEN OLD.rules_read_at AND OLD.rules_read_at + interval '25 minutes'"
    " AND (OLD.rules_reported_at IS NULL OR OLD.rules_reported_at <= OLD.rules_read_at),"
    " NEW.rules_read_at IS NULL AND OLD.rules_read_at IS NULL)"
)


def upgrade() -> None:
    """Add the columns, and have a change of the stop in force raise the version of freezes."""
    for table, columns in COLUMNS.items():
        op.execute(f"ALTER TABLE {table} {', '.join(f'ADD COLUMN {column}' for column in columns)}")
    op.execute("GRANT UPDATE (may_stop) ON frozen_branch_rulesets TO change_freeze_app")
    op.execute("UPDATE freezes SET blocked_at = enforced_at WHERE enforced_at IS NOT NULL AND ended_at IS NULL")
    _replace_trigger("decisive_check", "rules_reported_at", "stop")


def downgrade() -> None:
    """Drop the columns."""
    _replace_trigger("decisive_check", "rules_reported_at")
    for table, columns in COLUMNS.items():
        op.execute(f"ALTER TABLE {table} {', '.join('DROP COLUMN ' + column.split()[0] for column in columns)}")


def _replace_trigger(*shown: str) -> None:
    before, after = (", ".join(f"{row}.{name}" for name in shown) for row in ("OLD", "NEW"))
    op.execute("DROP TRIGGER raise_freeze_version_by_update ON branch_enforcement")
    op.execute(f"""
        CREATE TRIGGER raise_freeze_version_by_update AFTER UPDATE ON branch_enforcement FOR EACH ROW
            WHEN (ROW({before}) IS DISTINCT FROM ROW({after}) OR NOT {READ_IN_TIME})
            EXECUTE FUNCTION note_change_of_freezes();
    """)
