"""The first page's figures: what is frozen, what comes next, what is asked for, and what was done last.

A handful of queries, each by an index, whatever there is: nothing is asked for each row.
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
from services.overview.attention import count_items

FREEZES, WINDOWS, ACTIVITIES = 5, 5, 10
"""How many of each are shown."""
NOUNS = ("freeze", "schedule", "occurrence", "exception", "enforcement")
"""What the activity tells of: what whoever may see freezes may know."""
TOLD = [action for action in ACTIONS if action.partition(".")[0] in NOUNS]
"""The actions of that."""


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
        "attention": count_items(uow),
        "activity": _activity(uow),
    }


def _freezes(uow: UnitOfWork) -> dict[str, Any]:
    running = (Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now))
    newest = select(Freeze, func.count().over()).where(*running).order_by(Freeze.started_at.desc(), Freeze.id.desc())
    rows = uow.session.execute(newest.limit(FREEZES)).all()
    return {
        "in_force": rows[0][1] if rows else 0,
        "newest": views.views(uow, [row[0] for row in rows]) if rows else [],
    }


def _frozen(uow: UnitOfWork) -> int:
    """Count what freezes in force cover, of what a freeze can reach."""
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
    """Return the planned windows that begin next."""
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
        .limit(WINDOWS)
    )
    return [dict(row) for row in uow.session.execute(query).mappings()]


def _exceptions(uow: UnitOfWork) -> dict[str, int]:
    """Count requests that wait, and exceptions that hold, of open pull requests; those asked for together are one.

    What a repository that is not covered any more has of them is of no use to anybody.
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
    """Return the last entries of the audit about what is told here, within what the plan shows.

    The last of each action are asked for, by an index, however many others were written since. The range of one action
    keeps the planner to that index: for an equality it would rather walk all entries back, past every other action.
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
    told = func.unnest(literal(TOLD, ARRAY(Text))).table_valued("action").render_derived("told")
    last = (
        select(*columns)
        .where(AuditEntry.organization_id == uow.organization)
        .where(AuditEntry.action >= told.c.action, AuditEntry.action <= told.c.action)
        .order_by(AuditEntry.action.desc(), AuditEntry.at.desc(), AuditEntry.id.desc())
        .limit(ACTIVITIES)
        .lateral()
    )
    newest = select(last).select_from(told).join(last, true()).where(last.c.at >= since)
    ordered = newest.order_by(last.c.at.desc(), last.c.id.desc()).limit(ACTIVITIES)
    return [dict(row) for row in uow.session.execute(ordered).mappings()]
