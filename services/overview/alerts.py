"""The list of alerts: open alerts that are stored, and alerts that are derived from the present state.

Derived alerts are never stored, so they cannot outlive their cause: failed targets, pending requests, expiring keys, a
removed or suspended installation, GitHub's rate limits, stops that do not end or that people ended, late enforcement,
late notifications, exceeded limits of the plan, a trial that ends soon, subscriptions that are unpaid or unclear,
processes that do not run, a restored database.
So the API judges whether others work: a dead process cannot report itself. Their ids are derived from their subjects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from sqlalchemy import func, select
from sqlalchemy.sql.selectable import Subquery, TextualSelect

from rules.billing.grants import trial_ending_soon
from rules.billing.plans import COUNTED
from rules.web_addresses import WebOrigin
from services.alerts.alerts import Severity
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.overview.alert_sources.blocking import severities_of_gaps
from services.overview.alert_sources.plans import limit_parameter
from services.overview.alert_sources.union import union_of_sources

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class AlertFilters:
    """Filters of the list; None matches all."""

    type: str | None = None
    severity: str | None = None


def list_alerts(uow: UnitOfWork, filters: AlertFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of the current alerts, the latest first. Raise `invalid_cursor`."""
    alerts = _all_alerts(uow)
    query = select(*alerts.c)
    if filters.type is not None:
        query = query.where(alerts.c.type == filters.type)
    if filters.severity is not None:
        query = query.where(alerts.c.severity == filters.severity)
    keys = (alerts.c.since, alerts.c.id)
    page = page_of(uow, "list_attention_items", filters, query, keys, cursor=cursor, limit=limit)
    return Page([dict(zip(alerts.c.keys(), row, strict=True)) for row in page.data], page.next_cursor)


def count_alerts(uow: UnitOfWork, gaps: Iterable[str] | None) -> Mapping[str, int]:
    """Return the number of alerts by severity.

    `gaps` are those of all branches that freezes in force cover (`GAPS`), where they were counted; else None.
    """
    alerts = _all_alerts(uow, gaps=gaps is None)
    query = select(alerts.c.severity, func.count()).group_by("severity")
    found = {row[0]: row[1] for row in uow.session.execute(query)}
    of_gaps = severities_of_gaps(gaps or ())
    return {severity: found.get(severity, 0) + of_gaps[severity] for severity in SEVERITIES}


def _all_alerts(uow: UnitOfWork, *, gaps: bool = True) -> Subquery:
    grants, plan = uow.caller.grants, uow.plan
    trial = trial_ending_soon(grants, uow.now)
    values = {
        "organization": uow.organization,
        "now": uow.now,
        "web": uow.ports[WebOrigin].url,
        "plan": plan.id,
        "decidable": plan.includes("pr_exceptions"),
        **{limit_parameter(name): plan.limits[name] for name in COUNTED},
        "trial_ends_at": trial.until if trial else None,
    }
    return _query(gaps=gaps).bindparams(**values).subquery("items")


@cache
def _query(*, gaps: bool) -> TextualSelect:
    return union_of_sources(gaps=gaps)  # cached, because building the query takes longer than running it
