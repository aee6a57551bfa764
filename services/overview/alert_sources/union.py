"""Sources of alerts: the stored ones, and one query for each type that is derived from the present state.

All queries have the same columns, and parameters: `organization`, `now`, `web` (the origin of the pages), and
of the plan in force `plan` (its name), `decidable` (whether it includes exceptions), its limits
(`limit_parameter`), and `trial_ends_at` if it is to be announced. They are built once.
"""

from typing import Any

from sqlalchemy import (
    select,
    text,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.selectable import TextualSelect

from models.attention import AttentionItem
from models.billing import COUNTS
from services.overview.alert_sources.api_keys import expiring_keys
from services.overview.alert_sources.blocking import gaps_of_freezes
from services.overview.alert_sources.branches import UNENFORCED, unenforced_branches
from services.overview.alert_sources.columns import ORGANIZATION, Query
from services.overview.alert_sources.freezes import failed_targets, pending_requests
from services.overview.alert_sources.installations import gone_installation, late_enforcement, paused_installation
from services.overview.alert_sources.notifications import late_notifications
from services.overview.alert_sources.plans import (
    ending_trial,
    exceeded_limit,
    several_subscriptions,
    unclear_subscriptions,
    unpaid_subscriptions,
)
from services.overview.alert_sources.processes import missing_sweep, missing_workers, reduced_workers
from services.overview.alert_sources.restores import restored_database
from services.overview.alert_sources.stops import alerts_of_stops

TYPES = (
    "failed_targets",
    "freeze_gap",
    "stop_not_ended",
    "stop_refused",
    "pending_request",
    "expiring_key",
    "installation_gone",
    "code_host_limit",
    "enforcement_late",
    "notifications_late",
    "process_down",
    "database_restored",
    "limit_exceeded",
    "trial_ending",
    "payment_failed",
    "subscription_unclear",
    "several_subscriptions",
)
"""Types of alerts that are not stored."""


def union_of_sources(*, gaps: bool = True) -> TextualSelect:
    """Return all sources as one query with the columns id, type, severity, since, subject, message, action.

    `gaps=False` leaves out those of frozen branches, which have to look at each branch.
    """
    sources = (open_alerts, failed_targets, pending_requests, expiring_keys, gone_installation, paused_installation)
    limited = [exceeded_limit(name, count(ORGANIZATION)) for name, count in COUNTS.items()]
    paid = (unpaid_subscriptions(), unclear_subscriptions(), several_subscriptions())
    every = union_all(
        *(source() for source in sources),
        late_enforcement(),
        late_notifications(),
        *limited,
        ending_trial(),
        *paid,
        missing_workers(),
        missing_sweep(),
        reduced_workers(),
        restored_database(),
    )
    columns = {column.key: column.type for column in every.selected_columns if column.key}
    written = [sql_of(every), alerts_of_stops(), unenforced_branches(), *([gaps_of_freezes()] if gaps else ())]
    return text(" UNION ALL ".join(written)).columns(**columns)


def sql_of(query: Any) -> str:
    """Return a query as SQL with named parameters."""
    named = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    return str(query.compile(dialect=named, compile_kwargs={"literal_binds": True}))


def open_alerts() -> Query:
    """Return the stored open alerts, but for those that are shown by their causes."""
    row = AttentionItem
    columns = (row.id, row.type, row.severity, row.since, row.subject, row.message, row.action)
    return select(*columns).where(row.organization_id == ORGANIZATION, row.cleared_at.is_(None), row.type != UNENFORCED)
