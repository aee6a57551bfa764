"""What release 1.0.0 leased goes: columns of branches and of records, and the triggers that copied requests.

`lease_unit`, `lease_holders.leases_checks` and `head_checks.tracked` stay for processes of 1.1.0, which read or write
them; the next release drops them.

Revision ID: 0046
Revises: 0045
"""

from alembic import context, op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

TRIGGERS = {
    "lease_branches_again": "lease_holders",
    "copy_read_backs_to_branches": "read_backs",
    "copy_requests_to_branches": "checks",
    "copy_requests_to_checks": "watched_branches",
    "number_generation": "watched_branches",
}


def upgrade() -> None:
    """Drop them. Every worker that still runs leases checks."""
    # Where checks were not leased until now, what 1.0.0 knew of merge queues is read again.
    op.execute("UPDATE checks SET due_at = coalesce(due_at, now()) FROM lease_unit u WHERE NOT u.is_check")
    op.execute("UPDATE lease_unit SET is_check = true WHERE NOT is_check")
    for trigger, table in TRIGGERS.items():
        op.execute(f"DROP TRIGGER {trigger} ON {table}")
        op.execute(f"DROP FUNCTION {trigger}()")
    op.execute("DROP FUNCTION copy_branches_to_checks(text[])")
    op.execute(
        "ALTER TABLE watched_branches DROP COLUMN wanted_generation, DROP COLUMN written_generation, "
        "DROP COLUMN outdated_since, DROP COLUMN merge_rank, DROP COLUMN deferred_rank, DROP COLUMN read_back, "
        "DROP COLUMN reread_at, DROP COLUMN due_at, DROP COLUMN lease_token, DROP COLUMN lease_holder, "
        "DROP COLUMN lease_until, DROP COLUMN attempts, DROP COLUMN last_error_code, DROP COLUMN last_error_message"
    )
    op.execute("DROP INDEX ix_head_checks_tracked, ix_head_checks_superseded")
    op.execute("ALTER TABLE head_checks DROP COLUMN intent_leases, DROP COLUMN intent_until")
    op.execute("ALTER TABLE lease_holders ALTER COLUMN leases_checks SET DEFAULT true")
    op.execute("ALTER TABLE freezes DROP COLUMN late_at")


def downgrade() -> None:
    """Add them again, empty: a worker of 1.0.0 that starts fills the columns of branches."""
    op.execute("ALTER TABLE freezes ADD COLUMN late_at TIMESTAMP WITH TIME ZONE")
    op.execute("ALTER TABLE lease_holders ALTER COLUMN leases_checks SET DEFAULT false")
    op.execute(
        "ALTER TABLE head_checks ADD COLUMN intent_leases TEXT[] DEFAULT '{}' NOT NULL, "
        "ADD COLUMN intent_until TIMESTAMP WITH TIME ZONE"
    )
    op.execute("CREATE INDEX ix_head_checks_tracked ON head_checks (repository_id, check_name) WHERE tracked")
    op.execute(
        "CREATE INDEX ix_head_checks_superseded ON head_checks (repository_id, check_name) "
        "WHERE NOT tracked AND (conclusion = 'success' OR unconfirmed)"
    )
    op.execute(
        "ALTER TABLE watched_branches ADD COLUMN wanted_generation BIGINT DEFAULT 0 NOT NULL, "
        "ADD COLUMN written_generation BIGINT DEFAULT 0 NOT NULL, ADD COLUMN outdated_since TIMESTAMP WITH TIME ZONE, "
        "ADD COLUMN merge_rank SMALLINT DEFAULT 9 NOT NULL, ADD COLUMN deferred_rank SMALLINT, "
        "ADD COLUMN read_back BOOLEAN DEFAULT false NOT NULL, ADD COLUMN reread_at TIMESTAMP WITH TIME ZONE, "
        "ADD COLUMN due_at TIMESTAMP WITH TIME ZONE, ADD COLUMN lease_token TEXT, ADD COLUMN lease_holder INTEGER, "
        "ADD COLUMN lease_until TIMESTAMP WITH TIME ZONE, ADD COLUMN attempts INTEGER DEFAULT 0 NOT NULL, "
        "ADD COLUMN last_error_code TEXT, ADD COLUMN last_error_message TEXT"
    )
    op.execute("CREATE INDEX ix_watched_branches_due ON watched_branches (due_at) WHERE due_at IS NOT NULL")
    op.execute(
        "CREATE INDEX ix_watched_branches_outdated ON watched_branches (outdated_since) "
        "WHERE outdated_since IS NOT NULL"
    )
    added = context.script.get_revision("0044").module
    functions, _, _filling = added.COPY.partition("SELECT copy_branches_to_checks(ARRAY")
    op.execute(functions)
    op.execute(added.COPYING)
