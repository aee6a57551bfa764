"""The overview: freezes in force, next windows, pending exceptions, enforcement, alerts and the latest activity.

A fixed number of indexed queries, independent of the amount of data.
"""

from typing import Any

from sqlalchemy import ARRAY, Text, distinct, func, literal, select, true

from models.audit import AuditEntry
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.audit.actions import ACTIONS
from rules.rulesets.findings import worst
from services.audit.filters import AuditFilters, shown_since
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.status import LIGHTS, count_by_light, freezable
from services.freezes import views
from services.overview.alerts import count_alerts

MAX_FREEZES, MAX_WINDOWS, MAX_ACTIVITIES = 5, 5, 10
ACTIVITY_TYPES = ("freeze", "schedule", "occurrence", "exception", "enforcement")
"""Objects whose audit entries are shown: those that every member with access to freezes may see."""
ACTIVITY_ACTIONS = [action for action in ACTIONS if action.partition(".")[0] in ACTIVITY_TYPES]


def show(uow: UnitOfWork) -> dict[str, Any]:
    """Return the contract's `Overview`."""
    light_counts = count_by_light(uow)
    return {
        "at": uow.now,
        "freezes": _freezes(uow),
        "branches": {"watched": sum(light_counts.values()), "frozen": _frozen(uow)},
        "windows": _windows(uow),
        "exceptions": _exceptions(uow),
        "enforcement": {"light": worst(light for light in LIGHTS if light_counts[light]), "counts": light_counts},
        "attention": count_alerts(uow),
        "activity": _activity(uow),
    }


def _freezes(uow: UnitOfWork) -> dict[str, Any]:
    running = (Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now))
    newest = select(Freeze, func.count().over()).where(*running).order_by(Freeze.started_at.desc(), Freeze.id.desc())
    rows = uow.session.execute(newest.limit(MAX_FREEZES)).all()
    return {
        "in_force": rows[0][1] if rows else 0,
        "newest": views.views(uow, [row[0] for row in rows]) if rows else [],
    }


def _frozen(uow: UnitOfWork) -> int:
    """Return the number of freezable branches that freezes in force cover."""
    query = (
        select(func.count(distinct(FreezeTarget.branch_id)))
        .join_from(Freeze, FreezeTarget, FreezeTarget.freeze_id == Freeze.id)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(
            Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now), FreezeTarget.operation == "apply"
        )
        .where(*freezable(uow))
    )
    return uow.session.scalar(query) or 0


def _windows(uow: UnitOfWork) -> list[dict[str, Any]]:
    """Return the planned windows that start next."""
    query = (
        select(
            Occurrence.id.label("occurrence_id"),
            Occurrence.schedule_id,
            Schedule.name.label("schedule_name"),
            Occurrence.starts_at,
            Occurrence.ends_at,
        )
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .where(
            Occurrence.organization_id == uow.organization,
            Occurrence.is_planned(uow.now),
            Occurrence.starts_at > uow.now,
        )
        .where(Schedule.enabled, Schedule.deleted_at.is_(None))
        .order_by(Occurrence.starts_at, Occurrence.id)
        .limit(MAX_WINDOWS)
    )
    return [dict(row) for row in uow.session.execute(query).mappings()]


def _exceptions(uow: UnitOfWork) -> dict[str, int]:
    """Count pending and granted exceptions of open pull requests; those requested together count once.

    Repositories that were removed from the installation are left out.
    """
    row, running = PullRequestException, Freeze.is_in_force(uow.now)
    groups = func.count(distinct(row.request_group_id))
    query = (
        select(
            groups.filter(row.has_state("pending", uow.now, running)),
            groups.filter(row.has_state("granted", uow.now, running)),
        )
        .join_from(Freeze, row, row.freeze_id == Freeze.id)
        .join(PullRequest, PullRequest.id == row.pull_request_id)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .where(Freeze.organization_id == uow.organization, running)
        .where(PullRequest.state == "open", Repository.removed_at.is_(None))
    )
    pending, granted = uow.session.execute(query).one()
    return {"pending": pending, "granted": granted}


def _activity(uow: UnitOfWork) -> list[dict[str, Any]]:
    """Return the latest audit entries with these actions, within the plan's retention.

    The latest entries of each action are read from an index, however many others were written since. The condition on
    the action is a range (`>=` and `<=`) to keep the planner on that index: for an equality it would rather scan all
    entries backwards, past every other action.
    """
    columns = (
        AuditEntry.id,
        AuditEntry.at,
        AuditEntry.action,
        AuditEntry.actor,
        AuditEntry.source,
        AuditEntry.target,
    )
    since = shown_since(uow.now, uow.plan, AuditFilters())
    shown = func.unnest(literal(ACTIVITY_ACTIONS, ARRAY(Text))).table_valued("action").render_derived("shown")
    last = (
        select(*columns)
        .where(AuditEntry.organization_id == uow.organization)
        .where(AuditEntry.action >= shown.c.action, AuditEntry.action <= shown.c.action)
        .order_by(AuditEntry.action.desc(), AuditEntry.at.desc(), AuditEntry.id.desc())
        .limit(MAX_ACTIVITIES)
        .lateral()
    )
    newest = select(last).select_from(shown).join(last, true()).where(last.c.at >= since)
    ordered = newest.order_by(last.c.at.desc(), last.c.id.desc()).limit(MAX_ACTIVITIES)
    return [dict(row) for row in uow.session.execute(ordered).mappings()]
