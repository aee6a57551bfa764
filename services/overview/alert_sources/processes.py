"""Alerts about the processes of the service: no worker runs, fewer than did, or none that sweeps."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    case,
    func,
    literal,
    select,
    true,
)

from models.leases import LeaseHolder
from models.organizations import Organization
from models.requests import PeriodicTask
from rules.web_addresses import STATUS
from services.core.lease_holder import PROCESS_TIMEOUT
from services.overview.alert_sources.columns import (
    NOW,
    ORGANIZATION,
    Query,
    alert_columns,
    format_instant,
    interval,
    page,
)

WORKER_DOWN = (
    "No worker of the service has responded since %s: windows do not begin, and checks are not written, or written "
    "late. The operator of the service has to start one."
)
NOT_SWEPT = (
    "Workers of the service run, and have not begun or ended windows since %s. "
    "The operator of the service has to look at their logs."
)
REDUCED = (
    "A worker of the service has not responded since %s, and was not replaced; the others do its work. "
    "The operator of the service has to start another one."
)
DEATHS_REPORTED = "interval '30 minutes'"
"""For how long a dead process is reported that was not replaced: the number that should run is not known."""


def missing_workers() -> Query:
    """Return an alert if no worker runs: critical, unless something else sweeps and so does their work."""
    heartbeat = _last_heartbeat()
    since = func.coalesce(heartbeat, Organization.created_at)
    severity = case((_is_silent(PeriodicTask.windows_done_at()), "critical"), else_="warning")
    columns = _process_columns("worker", severity, since, func.format(WORKER_DOWN, format_instant(since)))
    return select(*columns).where(Organization.id == ORGANIZATION, _is_silent(heartbeat))


def missing_sweep() -> Query:
    """Return an alert if workers run and none looks at windows."""
    swept_at = PeriodicTask.windows_done_at()
    since = func.coalesce(swept_at, Organization.created_at)
    columns = _process_columns("sweeper", literal("critical"), since, func.format(NOT_SWEPT, format_instant(since)))
    return select(*columns).where(Organization.id == ORGANIZATION, _is_silent(swept_at), ~_is_silent(_last_heartbeat()))


def reduced_workers() -> Query:
    """Return an alert if a worker did not end in order, others run, and none was started since then.

    Processes that were started replace as many, so one that crashes and is restarted again and again is not reported.
    """
    died = (
        select(func.count().label("count"), func.min(LeaseHolder.beat_at).label("since"))
        .where(LeaseHolder.kind == "worker", LeaseHolder.stopped_at.is_(None))
        .where(_is_silent(LeaseHolder.beat_at), LeaseHolder.beat_at > NOW - interval(DEATHS_REPORTED))
        .subquery()
    )
    started = select(func.count()).where(LeaseHolder.kind == "worker", LeaseHolder.started_at > died.c.since)
    message = func.format(REDUCED, format_instant(died.c.since))
    return (
        select(*_process_columns("worker", literal("warning"), died.c.since, message))
        .join_from(Organization, died, died.c.count > started.correlate(died).scalar_subquery())
        .where(Organization.id == ORGANIZATION, ~_is_silent(_last_heartbeat()))
    )


def _last_heartbeat() -> Any:
    return select(func.max(LeaseHolder.beat_at)).where(LeaseHolder.kind == "worker").scalar_subquery()


def _is_silent(last: Any) -> ColumnElement[bool]:
    """Return the condition of a last sign of life that is too long ago, or that never was."""
    return func.coalesce(last <= NOW - interval(PROCESS_TIMEOUT), true())


def _process_columns(
    kind: str, severity: ColumnElement[str], since: ColumnElement[Any], message: ColumnElement[str]
) -> tuple[ColumnElement[Any], ...]:
    subject, action = ("process", literal(kind), literal(kind)), ("Open the status page", page(STATUS))
    about = Organization.id + " " + literal(kind)
    return alert_columns("process_down", severity, since, subject, message, action, about=about)
