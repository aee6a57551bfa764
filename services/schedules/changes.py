"""Creating and updating schedules. A saved schedule is planned at once and compared with the others."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy import update as sql_update

from models.billing import schedule_count
from models.schedule_queries import existing
from models.schedules import Occurrence, Schedule
from rules.access.organization_settings import OrganizationSettings
from rules.billing.plans import require_room
from rules.contract_names import camel_case
from rules.freezes.reasons import public_text
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scope, named_scopes
from services.freezes.start import checked_reason
from services.freezes.windows import begin_due
from services.organizations.organizations import lock_current
from services.schedules import alerts
from services.schedules.check_texts import PlannedFreezes, planned_freezes_of, refresh_texts
from services.schedules.later_occurrences import window_at
from services.schedules.lost_skips import Skips
from services.schedules.manual_runs import restart
from services.schedules.overlaps import ids_overlapping, require_no_overlap
from services.schedules.plans import plan
from services.schedules.terms import recurrence_of, window_of
from services.schedules.validation import check_terms
from services.schedules.views import get_matching

_READ: Mapping[str, Callable[[Mapping[str, Any]], object]] = {"recurrence": recurrence_of, "window": window_of}
"""Properties with several equal forms, such as with a default or without, and how they are parsed."""
_TRIMMED: Mapping[str, Callable[[Any], object]] = {
    "reason": partial(checked_reason, code="validation_failed"),
    "public_text": public_text,
}
"""Properties that are stored without surrounding white space."""
_TERMS = {"timezone", "recurrence", "window", "enabled"}
"""Properties that determine the windows."""
_OF_FREEZES = {*_TERMS, "scope", "reason", "public_text", "exceptions_allowed", "exception_rules_allowed"}
"""Properties that determine the freeze of a window."""
COMPARED = {*_TERMS, "scope", "allow_overlap"}
"""Properties that determine overlaps."""
_AUDITED = (
    "name",
    "scope",
    "timezone",
    "recurrence",
    "window",
    "reason",
    "public_text",
    "exceptions_allowed",
    "exception_rules_allowed",
    "enabled",
    "allow_overlap",
)


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """The input for a new schedule; recurrence and window as they are stored."""

    name: str
    scope: dict[str, Any]
    recurrence: dict[str, Any]
    window: dict[str, Any]
    reason: str
    public_text: str | None = None
    timezone: str | None = None
    """None means the time zone of the organisation's settings."""
    exceptions_allowed: bool = True
    exception_rules_allowed: bool = True
    enabled: bool = True
    allow_overlap: bool = False
    source: str = "manual"
    import_key: str | None = None
    imported: dict[str, Any] | None = None


def create(uow: UnitOfWork, wanted: NewSchedule) -> Schedule:
    """Create a schedule and plan its windows.

    Raise the errors of `check_terms`, `feature_not_available` (quota of schedules), `schedule_overlap`.
    """
    organization = lock_current(uow)
    timezone = wanted.timezone or OrganizationSettings.from_json(organization.settings).timezone
    given = {"scope": wanted.scope, "timezone": timezone, "recurrence": wanted.recurrence, "window": wanted.window}
    check_terms(uow, {**given, "reason": wanted.reason})
    require_room(uow.plan, "schedules", uow.session.scalar(schedule_count(uow.organization)) or 0, 1)
    schedule = insert_checked(uow, wanted, timezone)
    refresh_texts(uow, PlannedFreezes(schedule.scope), planned_freezes_of(uow, schedule))
    return schedule


def insert_checked(uow: UnitOfWork, wanted: NewSchedule, timezone: str) -> Schedule:
    """Create and plan a schedule whose terms and quota have been checked. Raise `schedule_overlap`."""
    schedule = new_schedule(uow, wanted, timezone)
    uow.session.add(schedule)
    plan(uow, schedule)
    _require_no_overlap(uow, schedule)
    uow.audit(
        "schedule.created",
        alerts.subject(schedule),
        before=None,
        after=audit_snapshot(uow, schedule),
        source=schedule.source,
    )
    return schedule


def restore_deleted(uow: UnitOfWork, schedule: Schedule, beside: Collection[str]) -> None:
    """Plan a locked schedule again that was deleted, as it was. Raise `schedule_overlap`.

    `beside` are the ids of the schedules beside which it was planned.
    """
    schedule.deleted_at, schedule.updated_at = None, uow.now
    plan(uow, schedule)
    _require_no_overlap(uow, schedule, beside)
    uow.audit(
        "schedule.created",
        alerts.subject(schedule),
        before=None,
        after=audit_snapshot(uow, schedule),
        source=schedule.source,
        restored=True,
    )


def new_schedule(uow: UnitOfWork, wanted: NewSchedule, timezone: str) -> Schedule:
    """Return a schedule that is not stored yet. Raise `validation_failed` for its reason."""
    return Schedule(
        id=new_id("sch"),
        organization_id=uow.organization,
        name=wanted.name,
        scope=wanted.scope,
        timezone=timezone,
        recurrence=wanted.recurrence,
        window=wanted.window,
        reason=checked_reason(wanted.reason, "validation_failed"),
        public_text=public_text(wanted.public_text),
        exceptions_allowed=wanted.exceptions_allowed,
        exception_rules_allowed=wanted.exception_rules_allowed,
        enabled=wanted.enabled,
        allow_overlap=wanted.allow_overlap,
        source=wanted.source,
        import_key=wanted.import_key,
        imported=wanted.imported,
        created_by=uow.actor.as_json(),
        created_at=uow.now,
        updated_at=uow.now,
    )


def update(
    uow: UnitOfWork,
    schedule_id: str,
    changes: Mapping[str, Any],
    if_match: str | None = None,
    *,
    apply_to_active: bool = False,
) -> tuple[Schedule, list[dict[str, Any]]]:
    """Change the given properties of a schedule, and replan its future windows if they depend on them.

    Return it with the times of the skipped windows that the change has lost. `apply_to_active`: a freeze of it that is
    in force follows a change of its terms, scope, reason or exceptions.
    Raise `schedule_not_found`, `precondition_failed`, the errors of `check_terms`, `schedule_overlap`.
    """
    schedule = get_matching(uow, schedule_id, if_match)
    if "scope" in changes and _says_the_same(uow, changes["scope"], schedule.scope):
        changes = {name: value for name, value in changes.items() if name != "scope"}
    check_terms(uow, changes)
    before, skips = planned_freezes_of(uow, schedule), Skips(uow, schedule)
    change(uow, schedule, changes, apply_to_active=apply_to_active)
    refresh_texts(uow, before, planned_freezes_of(uow, schedule))
    return schedule, skips.lost()


def change(
    uow: UnitOfWork, schedule: Schedule, changes: Mapping[str, Any], *, apply_to_active: bool = False
) -> Schedule:
    """Change a locked schedule to checked values. Raise `schedule_overlap`.

    A due window that the change would take away, or move to other branches, begins first (I14). `apply_to_active`: the
    freezes in force follow.
    """
    begin_due(uow, schedule, unless=lambda occurrence: _stays(schedule, changes, occurrence))
    before, former = _terms_of(schedule), Former.of(schedule)
    changed = assign(schedule, changes)
    after = _terms_of(schedule)
    if changed:
        schedule.updated_at = uow.now
    if changed & _TERMS:
        plan(uow, schedule, before["timezone"])
    if "scope" in changed:
        coming = (Occurrence.schedule_id == schedule.id, Occurrence.is_planned(uow.now))
        uow.session.execute(sql_update(Occurrence).where(*coming).values(verified_at=None))
    if changed & COMPARED:
        _require_no_overlap(uow, schedule, () if "allow_overlap" in changed else former.beside(uow))
    if not changed:
        return schedule
    names = sorted(camel_case(name) for name in changed)
    if "scope" in changed:
        before["scope"], after["scope"] = named_scopes(uow, [before["scope"], after["scope"]])
    uow.audit(
        "schedule.updated",
        alerts.subject(schedule),
        before={name: before[name] for name in names},
        after={name: after[name] for name in names},
    )
    if apply_to_active and changed & _OF_FREEZES:
        restart(uow, schedule, same_windows=not changed & _TERMS)
    return schedule


def assign(schedule: Schedule, changes: Mapping[str, Any]) -> set[str]:
    """Give a schedule checked values, and return the names of the terms that differ from before."""
    before = _terms_of(schedule)
    for name, value in changes.items():
        if name not in _READ or not is_equal(name, value, getattr(schedule, name)):
            trim = _TRIMMED.get(name)
            setattr(schedule, name, value if trim is None else trim(value))
    after = _terms_of(schedule)
    return {name for name in _AUDITED if before[camel_case(name)] != after[camel_case(name)]}


def _stays(schedule: Schedule, changes: Mapping[str, Any], occurrence: Occurrence) -> bool:
    """True if a schedule has the same window on the same branches after a change."""
    if not changes.get("enabled", True) or not is_equal("scope", changes.get("scope", schedule.scope), schedule.scope):
        return False
    terms = {name: changes.get(name, getattr(schedule, name)) for name in ("timezone", "recurrence", "window")}
    window = window_at(Schedule(**terms), occurrence.starts_at)
    return window is not None and window.end == occurrence.ends_at


def is_equal(name: str, value: Any, other: Any) -> bool:
    """True if two values of a property are the same, also in different forms."""
    if name in _READ and value is not None and other is not None:
        return _READ[name](value) == _READ[name](other)
    return bool(value == other)


@dataclass(frozen=True, slots=True)
class Former:
    """What a schedule was before a change."""

    planned: Schedule
    """Its scope and windows, outside of any session; without windows while it was disabled."""
    paused_at: datetime | None
    """When it was last changed, if it was disabled since; None if it was enabled, or never."""

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        """Return what a schedule is now."""
        was_changed = schedule.updated_at > schedule.created_at
        terms = {"timezone": schedule.timezone, "window": schedule.window}
        planned = Schedule(id=schedule.id, scope=schedule.scope, windows=schedule.windows, **terms)
        return cls(planned, schedule.updated_at if was_changed and not schedule.enabled else None)

    def beside(self, uow: UnitOfWork) -> Collection[str]:
        """Return the ids of the schedules that were planned side by side with it."""
        if self.paused_at is None:
            return ids_overlapping(uow, self.planned)
        earlier = select(Schedule.id).where(existing(uow.organization), Schedule.created_at <= self.paused_at)
        return uow.session.scalars(earlier).all()


def _require_no_overlap(uow: UnitOfWork, schedule: Schedule, beside: Collection[str] = ()) -> None:
    schedule.overlaps_checked_at = None
    uow.session.flush()
    if schedule.enabled and not schedule.allow_overlap:
        require_no_overlap(uow, schedule, beside)


def _says_the_same(uow: UnitOfWork, scope: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if a scope is the one that is shown for the stored one, or that one written in another way."""
    shown, asked = named_scopes(uow, [stored, scope])
    return asked == shown and (scope == shown or not {"branchId", "branch"} <= scope.keys())


def audit_snapshot(uow: UnitOfWork, schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as the audit log shows it, by the names of the contract."""
    return {**_terms_of(schedule), "scope": named_scope(uow, schedule.scope)}


def _terms_of(schedule: Schedule) -> dict[str, Any]:
    """Return what the audit log shows of a schedule, with its scope as it is stored."""
    shown = {camel_case(name): getattr(schedule, name) for name in _AUDITED}
    for name in ("recurrence", "window"):
        shown[name] = {camel_case(key): value for key, value in shown[name].items()}
    return shown
