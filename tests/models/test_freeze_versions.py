"""Every column of the tables that the freeze state is read from raises the version, or is known not to be shown."""

import re
from collections import defaultdict

from sqlalchemy import text
from sqlalchemy.orm import Session

from models.base import Base

OF_LEASES = {
    "due_at",
    "lease_token",
    "lease_holder",
    "lease_until",
    "attempts",
    "last_error_code",
    "last_error_message",
}
NEVER_CHANGED = {"id", "organization_id", "created_at", "created_by"}
NOT_SHOWN = {
    "installations": {
        *("account", "repository_selection", "permissions", "status_version", "paused_until", "paused_since"),
        "refused_until",
        *("content_counting", "content_learnt_at", "synced_at"),
        *("resync_due_at", "resync_after", "resync_began_at", "resync_urgent"),
    },
    "repositories": {
        *("github_id", "node_id", "default_branch", "private", "auto_watch", "former_globs", "synced_at"),
        *("rulesets_authorized_by", "rulesets_authorized_at"),
        "full_name_key",  # of owner and name
        "renamed",  # of former_names
    },
    "watched_branches": {
        "repository_id",  # never changed
        *("check_name", "pattern_check_name"),  # what no rule requires is never enforced
        *("exceptions_allowed", "never_watched"),
    },
    "freezes": {
        *("public_text", "scope", "source", "end_reason", "previewed_repo_count", "impact_acknowledged", "schedule_id"),
        *("occurrence_id", "claimed_by", "ended_by", "enforced_at", "first_enforced_at", "unprotected_causes"),
        *("blocked_at", "released_at", "targets_pending", "failing_since", "exception_rules_allowed"),
    },
    "freeze_targets": {
        *("state", "generation", "heads_total", "heads_written", "next_attempt_at", "applied_at", "released_at"),
    },
    "schedules": {
        *(
            "name",
            "timezone",
            "recurrence",
            "wall_clock_window",
            "public_text",
            "allow_overlap",
            "source",
            "exception_rules_allowed",
        ),
        *("import_key", "imported", "updated_at", "planned_until", "planned_with", "windows", "overlaps_checked_at"),
    },
    "occurrences": {"schedule_id", "skipped_by", "verified_at", "freeze_id", "late"},
    "branch_enforcement": {
        *("branch_id", "light", "required", "own_rule", "required_since", "required_until", "rule_requested_at"),
        *("ruleset", "integration_pinned", "bypass_actors", "merge_queue", "findings", "verified_at"),
        "open_ways",  # a branch that is partly blocked is enforced
    },
    "head_checks": {
        *("repository_id", "check_name", "head_sha", "branch_id"),  # never changed
        *("evaluation", "check_run_id", "summary_hash", "in_flight_until", "written_at"),
    },
    "organizations": {"slug", "settings", "deleted_at", "purged_at"},
}
"""What answers do not follow from: states, counts and texts that the freeze state does not show."""


def test_column_raises_the_version_of_freezes_or_is_not_shown(session: Session) -> None:
    raising = defaultdict[str, set[str]](set)
    for table, definition in session.execute(
        text("""
            SELECT c.relname, pg_get_triggerdef(t.oid) || p.prosrc
            FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
            WHERE t.tgname LIKE 'raise_freeze_version%'
        """)
    ):
        raising[table] |= set(re.findall(r"\b(?:old|o)\.(\w+)", definition, re.IGNORECASE)) - NEVER_CHANGED
    assert raising.keys() == NOT_SHOWN.keys()
    for table, columns in raising.items():
        every = {column.name for column in Base.metadata.tables[table].columns}
        assert every - NEVER_CHANGED - OF_LEASES - columns == NOT_SHOWN[table], table
