"""The overview: freezes in force, next windows, pending exceptions, enforcement, alerts and the latest activity.

A fixed number of indexed queries, independent of the amount of data. The statements are made once, because every page
of the dashboard reads the counts and to make a statement takes longer than to send it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, DateTime, Text, bindparam, distinct, func, literal, select, true

from models.audit import AuditEntry
from models.due_windows import due_of_organization, freeze_of
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import NOW
from models.repositories import Repository
from models.schedules import Occurrence, Schedule
from rules.audit.actions import ACTIONS
from services.audit.filters import AuditFilters, shown_since
from services.core.unit_of_work import UnitOfWork
from services.freezes import views
from services.overview.alerts import count_alerts
from services.overview.frozen_branches import count_branches
from services.overview.frozen_branches import view as blocking_view

MAX_FREEZES, MAX_WINDOWS, MAX_ACTIVITIES = 5, 5, 10
ACTIVITY_TYPES = ("freeze", "schedule", "occurrence", "exception", "enforcement")
"""Objects whose audit entries are shown: those that every member with access to freezes may see."""
ACTIVITY_ACTIONS = [action for action in ACTIONS if action.partition(".")[0] in ACTIVITY_TYPES]

_ORGANIZATION: Any = bindparam("organization", type_=Text)
_RUNNING = Freeze.is_in_force(NOW)
_FREEZES = (
    select(Freeze, func.count().over())
    .where(Freeze.organization_id == _ORGANIZATION, _RUNNING)
    .order_by(Freeze.started_at.desc(), Freeze.id.desc())
    .limit(MAX_FREEZES)
)
_WINDOWS = (
    select(
        Occurrence.id.label("occurrence_id"),
        Occurrence.schedule_id,
        Schedule.name.label("schedule_name"),
        Occurrence.starts_at,
        Occurrence.ends_at,
    )
    .join(Schedule, Schedule.id == Occurrence.schedule_id)
    .where(Occurrence.organization_id == _ORGANIZATION, Occurrence.is_planned(NOW), Occurrence.starts_at > NOW)
    .where(Schedule.enabled, Schedule.deleted_at.is_(None))
    .order_by(Occurrence.starts_at, Occurrence.id)
    .limit(MAX_WINDOWS)
)
_GROUPS = func.count(distinct(PullRequestException.request_group_id))
_EXCEPTIONS = (
    select(
        _GROUPS.filter(PullRequestException.has_state("pending", NOW, _RUNNING)),
        _GROUPS.filter(PullRequestException.has_state("granted", NOW, _RUNNING)),
    )
    .join_from(Freeze, PullRequestException, PullRequestException.freeze_id == Freeze.id)
    .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
    .join(Repository, Repository.id == PullRequest.repository_id)
    .where(Freeze.organization_id == _ORGANIZATION, _RUNNING)
    .where(PullRequest.state == "open", Repository.removed_at.is_(None))
)
_SHOWN = func.unnest(literal(ACTIVITY_ACTIONS, ARRAY(Text))).table_valued("action").render_derived("shown")
_LATEST = (
    select(AuditEntry.id, AuditEntry.at, AuditEntry.action, AuditEntry.actor, AuditEntry.source, AuditEntry.target)
    .where(AuditEntry.organization_id == _ORGANIZATION)
    .where(AuditEntry.action >= _SHOWN.c.action, AuditEntry.action <= _SHOWN.c.action)
    .order_by(AuditEntry.action.desc(), AuditEntry.at.desc(), AuditEntry.id.desc())
    .limit(MAX_ACTIVITIES)
    .lateral()
)
"""The latest entries of each action, read from an index, however many others were written since.

The condition on the action is a range (`>=` and `<=`) to keep the planner on that index: for an equality it would
rather scan all entries backwards, past every other action.
"""
_ACTIVITY = (
    select(_LATEST)
    .select_from(_SHOWN)
    .join(_LATEST, true())
    .where(_LATEST.c.at >= bindparam("since", type_=DateTime(timezone=True)))
    .order_by(_LATEST.c.at.desc(), _LATEST.c.id.desc())
    .limit(MAX_ACTIVITIES)
)


def show(uow: UnitOfWork, *, counts_only: bool = False) -> dict[str, Any]:
    """Return the contract's `Overview`; with `counts_only`, its lists are empty."""
    values = {"organization": uow.organization, "now": uow.now}
    due = due_of_organization(uow.session, uow.organization, uow.now)
    freezes = uow.session.execute(_FREEZES, values).all()
    not_begun = [freeze_of(window, uow.organization) for window, _branch_ids in due]
    newest = [] if counts_only else _newest([*(row[0] for row in freezes), *not_begun])
    counts = count_branches(uow, {branch_id for _window, branch_ids in due for branch_id in branch_ids})
    gaps = None if due else {gap for _state, gap in counts.blocking.gaps}  # alerts leave out what due windows cover
    pending, granted = uow.session.execute(_EXCEPTIONS, values).one()
    return {
        "at": uow.now,
        "freezes": {
            "in_force": (freezes[0][1] if freezes else 0) + len(not_begun),
            "newest": views.views(uow, newest) if newest else [],
        },
        "branches": {
            "watched": sum(counts.lights.lights.values()),
            "frozen": counts.frozen,
        },
        "blocking": blocking_view(counts.blocking),
        "windows": [] if counts_only else [dict(row) for row in uow.session.execute(_WINDOWS, values).mappings()],
        "exceptions": {"pending": pending, "granted": granted},
        "enforcement": {"light": counts.lights.worst, "counts": counts.lights.view},
        "attention": count_alerts(uow, gaps),
        "activity": [] if counts_only else _activity(uow),
    }


def _newest(freezes: Sequence[Freeze]) -> list[Freeze]:
    return sorted(freezes, key=lambda freeze: (freeze.started_at, freeze.id), reverse=True)[:MAX_FREEZES]


def _activity(uow: UnitOfWork) -> list[dict[str, Any]]:
    """Return the latest audit entries with these actions, within the plan's retention."""
    since = shown_since(uow.now, uow.plan, AuditFilters())
    rows = uow.session.execute(_ACTIVITY, {"organization": uow.organization, "since": since})
    return [dict(row) for row in rows.mappings()]
