"""Ending freezes: one, all inside a scope, or those whose end has come.

Ending one never touches another (I6): the branches of the ended freeze become due, and the reconciler writes whatever
verdict the remaining freezes give. That is a fan-out of its own, with its own completion (`releasedAt`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, text

from models.checks import lock_affected, mark_dirty
from models.due_windows import branches_of_due, due_of_organization, freeze_of
from models.freezes import Freeze, FreezeTarget
from models.queries import covering_freezes
from models.schedules import Occurrence
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.scope import scope_contains
from rules.freezes.verdict import CoveringFreeze
from rules.ids import id_of_occurrence
from services.core.lookups import get_freeze
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.frozen_branch_requests import request_frozen_rulesets
from services.freezes.scope_names import named_scope
from services.freezes.scopes import resolve
from services.freezes.start import checked_reason
from services.freezes.views import ended_by_time, frozen_branches, views
from services.freezes.windows import begin_windows, due_in_organization, lock_freeze, lock_windows


def lift(uow: UnitOfWork, freeze_id: str, reason: str | None) -> Freeze:
    """End a freeze by hand. Raise `freeze_not_found`, and `not_frozen` once it has ended."""
    freeze = lock_freeze(uow, freeze_id)
    if not freeze.is_in_force(uow.now):
        raise ServiceError("not_frozen", "This freeze has already ended; there is nothing to lift.")
    _lift(uow, freeze, reason)
    return freeze


def _lift(uow: UnitOfWork, freeze: Freeze, reason: str | None, **details: Any) -> None:
    end(uow, freeze, "lifted", uow.now, uow.actor)
    audit_end(uow, "freeze.lifted", freeze, reason=reason.strip() if reason is not None else None, **details)


def override(uow: UnitOfWork, freeze_id: str, reason: str) -> Freeze:
    """End a schedule's freeze inside its window, and nothing else: its occurrence is then past, later ones go on.

    Raise `reason_required`, `freeze_not_found`, `invalid_state` for a freeze that no schedule started or whose window
    is over, and `not_frozen` if it ended inside its window.
    """
    why = checked_reason(reason)
    freeze = lock_freeze(uow, freeze_id)
    if freeze.source != "schedule":
        raise ServiceError("invalid_state", "No schedule started this freeze; lift it instead.")
    occurrence = uow.session.get(Occurrence, freeze.occurrence_id) if freeze.occurrence_id else None
    if occurrence is not None and occurrence.ends_at <= uow.now:
        raise ServiceError("invalid_state", "The window of this freeze is over; lift it instead if it was extended.")
    if not freeze.is_in_force(uow.now):
        raise ServiceError("not_frozen", "This freeze has already ended; there is nothing to override.")
    _override(uow, freeze, why)
    return freeze


def _override(uow: UnitOfWork, freeze: Freeze, reason: str | None) -> None:
    end(uow, freeze, "overridden", uow.now, uow.actor)
    of = {"scheduleId": freeze.schedule_id, "occurrenceId": freeze.occurrence_id}
    audit_end(uow, "freeze.overridden", freeze, reason=reason, **of)


def own_freezes(uow: UnitOfWork, branch_id: str) -> list[Freeze]:
    """Return the freezes in force that cover one branch and no other, also of due windows that have not begun."""
    due = due_of_organization(uow.session, uow.organization, uow.now)
    running = uow.session.scalars(_running(uow).where(_covers(branch_id)).order_by(Freeze.id)).all()
    not_begun = [freeze_of(window, uow.organization) for window, covered in due if covered == [branch_id]]
    targets = {freeze.id: {branch_id} for freeze in not_begun}
    scope = {"type": "branch", "branchId": branch_id}
    return _inside(uow, scope, {branch_id}, [*running, *not_begun], targets)


def end_own_freezes(uow: UnitOfWork, branch_id: str, reason: str | None) -> list[Freeze]:
    """End the freezes in force that cover one branch and no other, and return them.

    Manual ones are lifted, and so is a schedule's that was extended beyond its window; the running window of a schedule
    is overridden, and begins first if it is due.
    """
    own = own_freezes(uow, branch_id)
    if not own:
        return []
    due = lock_windows(uow, [id_of_occurrence(freeze.id) for freeze in own if not freeze.begun])
    locked = _lock_running(uow, Freeze.id.in_([freeze.id for freeze in own]))
    lock_covered_branches(uow, locked, [branch_id])
    running = [*locked, *begin_windows(uow, due)]
    own = _inside(uow, {"type": "branch", "branchId": branch_id}, {branch_id}, running)
    for freeze in own:
        occurrence = uow.session.get(Occurrence, freeze.occurrence_id) if freeze.occurrence_id else None
        if occurrence is not None and occurrence.ends_at > uow.now:
            _override(uow, freeze, reason)
        else:
            _lift(uow, freeze, reason)
    return own


def _covers(branch_id: str) -> ColumnElement[bool]:
    covering = select(FreezeTarget.freeze_id).where(
        FreezeTarget.branch_id == branch_id, FreezeTarget.operation == "apply"
    )
    return Freeze.id.in_(covering)


def lock_covered_branches(uow: UnitOfWork, freezes: Collection[Freeze], others: Collection[str] = ()) -> None:
    """Lock the branches of several freezes that are about to end, and others, in the order of all transactions.

    With them the rows of their repositories' rulesets.
    """
    covered = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id.in_([freeze.id for freeze in freezes]))
    branch_ids = set(uow.session.scalars(covered.distinct()))
    lock_affected(uow.session, {*branch_ids, *others})
    request_frozen_rulesets(uow, branch_ids)


def end(uow: UnitOfWork, freeze: Freeze, end_reason: str, ended_at: datetime, actor: Actor) -> None:
    """Record the end of a locked freeze, and have its branches released."""
    freeze.ended_at, freeze.end_reason, freeze.ended_by = ended_at, end_reason, actor.as_json()
    freeze.failing_since = None
    uow.session.flush()
    branches = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
    branch_ids = uow.session.scalars(branches).all()
    mark_dirty(uow.session, branch_ids, uow.now)
    uow.session.execute(
        text(
            "UPDATE freeze_targets t SET operation = 'release', state = 'releasing', generation = c.wanted_generation, "
            "heads_total = 0, heads_written = 0, attempts = 0, last_error_code = NULL, last_error_message = NULL, "
            "next_attempt_at = NULL FROM checks c WHERE c.branch_id = t.branch_id AND t.freeze_id = :freeze"
        ),
        {"freeze": freeze.id},
    )
    request_frozen_rulesets(uow, branch_ids)
    uow.wake("reconcile")


def end_all_freezes(uow: UnitOfWork, end_reason: str) -> None:
    """End all freezes of the organisation that are in force; the audit names `end_reason`."""
    ending = uow.session.scalars(_running(uow).order_by(Freeze.id).with_for_update()).all()
    lock_covered_branches(uow, ending)
    for freeze in ending:
        end(uow, freeze, end_reason, uow.now, uow.actor)
        audit_end(uow, "freeze.ended", freeze)


def audit_end(uow: UnitOfWork, action: str, freeze: Freeze, **details: Any) -> None:
    """Record the end of a freeze in the audit."""
    uow.audit(
        action,
        ("freeze", freeze.id, freeze.reason),
        before={"endedAt": None, "endReason": None},
        after={"endedAt": freeze.ended_at, "endReason": freeze.end_reason},
        **details,
    )


def lift_matching(uow: UnitOfWork, scope: dict[str, Any], reason: str | None) -> dict[str, Any]:
    """End every freeze in force whose own scope lies inside `scope`; due windows begin first.

    Raise `not_frozen` if no branch of the scope is frozen, `invalid_state` (with the ids of the freezes) if those that
    cover it reach further than the scope, and what resolving a scope raises.
    """
    covered = resolve(uow, scope).ids
    due = lock_windows(uow, due_in_organization(uow))
    running = _lock_running(uow)
    if due:
        lock_covered_branches(uow, running, branches_of_due(uow.session, uow.organization, uow.now))
        running = [*running, *begin_windows(uow, due)]
    inside = _inside(uow, scope, set(covered), running)
    if not inside:
        raise _nothing_to_lift(covering_freezes(uow.session, covered, uow.now))
    lock_covered_branches(uow, inside)
    shown = named_scope(uow, scope)
    for freeze in inside:
        _lift(uow, freeze, reason, scope=shown)
    return {"data": views(uow, inside), **frozen_branches(uow, covered, "still_frozen")}


def _running(uow: UnitOfWork) -> Select[Freeze]:
    return select(Freeze).where(Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now))


def _lock_running(uow: UnitOfWork, *conditions: ColumnElement[bool]) -> Sequence[Freeze]:
    """Lock the freezes of the organisation that are in force and meet the conditions, and return them.

    Waiting for the locks takes time, in which another freeze can start; then they are locked again, so that what is
    decided on them and what is read afterwards agree.
    """
    while True:
        locking = (
            _running(uow)
            .where(*conditions)
            .order_by(Freeze.id)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        running = uow.session.scalars(locking).all()
        uow.refresh_now()
        present = _running(uow).where(*conditions).with_only_columns(Freeze.id)
        if set(uow.session.scalars(present)) <= {freeze.id for freeze in running}:
            return running


def _inside(
    uow: UnitOfWork,
    scope: dict[str, Any],
    covered: set[str],
    running: Sequence[Freeze],
    not_begun: Mapping[str, set[str]] | None = None,
) -> list[Freeze]:
    """Return the running freezes that lie inside a scope, which covers the branches `covered`.

    Where the two scopes do not tell, the branches of a freeze decide; one without branches is not inside.
    `not_begun` are the branches of those that are no rows yet.
    """
    contained = {freeze.id: scope_contains(scope, freeze.scope) for freeze in running}
    unclear = [freeze_id for freeze_id, inside in contained.items() if inside is None]
    targets: dict[str, set[str]] = dict(not_begun or {})
    rows = uow.session.execute(
        select(FreezeTarget.freeze_id, FreezeTarget.branch_id).where(FreezeTarget.freeze_id.in_(unclear))
    )
    for freeze_id, branch_id in rows:
        targets.setdefault(freeze_id, set()).add(branch_id)
    by_branches = {freeze_id for freeze_id, branch_ids in targets.items() if branch_ids <= covered}
    return [freeze for freeze in running if contained[freeze.id] or freeze.id in by_branches]


def _nothing_to_lift(covering: Mapping[str, Iterable[CoveringFreeze]]) -> ServiceError:
    names = sorted({freeze.id for freezes in covering.values() for freeze in freezes})
    if not names:
        return ServiceError("not_frozen", "No branch of this scope is frozen; there is nothing to lift.")
    return ServiceError(
        "invalid_state",
        "The freezes that cover this scope reach further than it; lift them by id or with a wider scope: "
        + ", ".join(names[:20]),
    )


def expire_freeze(uow: UnitOfWork, freeze_id: str) -> bool:
    """Record the end of a freeze whose time has passed; return False if it was ended or extended meanwhile."""
    freeze = get_freeze(uow, freeze_id, lock=True)
    if freeze.ended_at is not None or freeze.ends_at is None or uow.now < freeze.ends_at:
        return False
    recorded = ended_by_time(freeze)
    end(uow, freeze, recorded["end_reason"], freeze.ends_at, uow.actor)
    audit_end(uow, "freeze.expired", freeze)
    return True
