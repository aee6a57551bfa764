"""Alerts about the processes of the service: none of a kind runs, or fewer than did."""

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
from rules.web_addresses import STATUS
from services.core.lease_holder import PROCESS_TIMEOUT, Kind
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
    "No worker of the service has responded since %s: checks are written late, or not at all. "
    "The operator of the service has to start one."
)
SWEEPER_DOWN = (
    "No sweeper of the service has responded since %s: windows do not begin, and lost work is not found. "
    "The operator of the service has to start one."
)
REDUCED = (
    "A %s of the service has not responded since %s, and was not replaced; the others do its work. "
    "The operator of the service has to start another one."
)
DEATHS_REPORTED = "interval '30 minutes'"
"""For how long a dead process is reported that was not replaced: the number that should run is not known."""


def missing_process(kind: Kind) -> Query:
    """Return an alert if no process of this kind runs: critical, unless sweepers do the work of the workers."""
    heartbeat = _last_heartbeat(kind)
    since = func.coalesce(heartbeat, Organization.created_at)
    severity: ColumnElement[str] = literal("critical")
    if kind == "worker":
        severity = case((_is_silent(_last_heartbeat("sweeper")), "critical"), else_="warning")
    message = func.format(WORKER_DOWN if kind == "worker" else SWEEPER_DOWN, format_instant(since))
    return select(*_process_columns(kind, severity, since, message)).where(
        Organization.id == ORGANIZATION, _is_silent(heartbeat)
    )


def reduced_processes(kind: Kind) -> Query:
    """Return an alert if a process of this kind did not end in order, others run, and none was started since then.

    Processes that were started replace as many, so one that crashes and is restarted again and again is not reported.
    """
    died = (
        select(func.count().label("count"), func.min(LeaseHolder.beat_at).label("since"))
        .where(LeaseHolder.kind == kind, LeaseHolder.stopped_at.is_(None))
        .where(_is_silent(LeaseHolder.beat_at), LeaseHolder.beat_at > NOW - interval(DEATHS_REPORTED))
        .subquery()
    )
    started = select(func.count()).where(LeaseHolder.kind == kind, LeaseHolder.started_at > died.c.since)
    message = func.format(REDUCED, kind, format_instant(died.c.since))
    return (
        select(*_process_columns(kind, literal("warning"), died.c.since, message))
        .join_from(Organization, died, died.c.count > started.correlate(died).scalar_subquery())
        .where(Organization.id == ORGANIZATION, ~_is_silent(_last_heartbeat(kind)))
    )


def _last_heartbeat(kind: Kind) -> Any:
    return select(func.max(LeaseHolder.beat_at)).where(LeaseHolder.kind == kind).scalar_subquery()


def _is_silent(heartbeat: Any) -> ColumnElement[bool]:
    """Return the condition of a last heartbeat that is too long ago, or that never was."""
    return func.coalesce(heartbeat <= NOW - interval(PROCESS_TIMEOUT), true())


def _process_columns(
    kind: Kind, severity: ColumnElement[str], since: ColumnElement[Any], message: ColumnElement[str]
) -> tuple[ColumnElement[Any], ...]:
    subject, action = ("process", literal(kind), literal(kind)), ("Open the status page", page(STATUS))
    about = Organization.id + " " + literal(kind)
    return alert_columns("process_down", severity, since, subject, message, action, about=about)
