"""Undoing a calendar import: what it created is deleted, what it changed or deleted is as it was before.

What an import did is in the audit, in the entries of its request. It can be undone until one of its schedules is
changed or deleted again. Freezes stay as they are. Windows that were skipped in a deleted schedule are planned again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import undefer

from models.audit import AuditEntry
from models.billing import schedule_count
from models.schedule_queries import existing
from models.schedules import Schedule
from rules.billing.plans import require_room
from rules.contract_names import snake_case
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import normalize
from services.organizations.organizations import lock_current
from services.schedules.changes import change, restore_deleted
from services.schedules.check_texts import refresh_all_texts
from services.schedules.deletion import delete_locked

_CREATED, _UPDATED, _DELETED = "schedule.created", "schedule.updated", "schedule.deleted"
_CHANGES = (_CREATED, _UPDATED, _DELETED)


def undo_schedule_import(uow: UnitOfWork, import_id: str) -> dict[str, Any]:
    """Undo an import, and return what was done to how many schedules.

    Raise `import_not_found`, `invalid_state` if one of its schedules has been changed since, `feature_not_available` if
    the plan does not include those that it deleted, and `schedule_overlap`.
    """
    organization = lock_current(uow)
    query = select(AuditEntry).where(AuditEntry.organization_id == uow.organization, AuditEntry.id == import_id)
    done = uow.session.scalar(query.where(AuditEntry.action == "schedule.imported"))
    if done is None:
        raise ServiceError("import_not_found", f"There is no calendar import {import_id!r} that changed anything.")
    rows = {row.id: row for row in _lock(uow, done.details["schedules"])}
    uow.refresh_now()
    changes = _changes_of(uow, done, rows)
    keys = done.details.get("importKeys", {})
    _require_free(uow, keys)
    counts = {"deleted": 0, "changed_back": 0, "restored": 0}
    for entry in changes:
        row = rows[str(entry.target_id)]
        if entry.action == _CREATED:
            delete_locked(uow, row)
            row.import_key = None
            counts["deleted"] += 1
        elif entry.action == _UPDATED:
            _change_back(uow, row, entry.details["before"])
            counts["changed_back"] += 1
    deleted = [rows[str(entry.target_id)] for entry in changes if entry.action == _DELETED]
    uow.session.flush()
    require_room(uow.plan, "schedules", uow.session.scalar(schedule_count(uow.organization)) or 0, len(deleted))
    earlier = select(Schedule.id).where(existing(uow.organization), Schedule.created_at <= done.at)
    beside = uow.session.scalars(earlier).all() if deleted else ()
    for row in deleted:
        row.import_key = keys.get(row.id)
        restore_deleted(uow, row, beside)
        counts["restored"] += 1
    refresh_all_texts(uow)
    target = ("organization", organization.id, organization.name)
    uow.audit("schedule.import_undone", target, importId=import_id, counts=counts)
    return {"import_id": import_id, "counts": counts}


def _lock(uow: UnitOfWork, schedule_ids: Sequence[str]) -> Sequence[Schedule]:
    query = select(Schedule).where(Schedule.organization_id == uow.organization, Schedule.id.in_(schedule_ids))
    query = query.options(undefer(Schedule.imported), undefer(Schedule.windows)).order_by(Schedule.id)
    return uow.session.scalars(query.with_for_update(key_share=True)).all()


def _changes_of(uow: UnitOfWork, done: AuditEntry, rows: Mapping[str, Schedule]) -> list[AuditEntry]:
    """Return the changes of an import, the last one first. Raise `invalid_state` if there are later ones."""
    query = select(AuditEntry).where(
        AuditEntry.organization_id == uow.organization,
        AuditEntry.target_id.in_(done.details["schedules"]),
        AuditEntry.action.in_(_CHANGES),
        AuditEntry.at >= done.at,
    )
    found = uow.session.scalars(query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc())).all()
    changes = [entry for entry in found if entry.request_id == done.request_id]
    later = next((entry for entry in found if entry.request_id != done.request_id), None)
    if later is not None:
        raise _changed(str(later.target["name"]))
    if {entry.target_id for entry in changes} != rows.keys():
        raise ServiceError("invalid_state", "What the import changed is no longer known, so it cannot be undone.")
    return changes


def _require_free(uow: UnitOfWork, keys: Mapping[str, str]) -> None:
    """Raise `invalid_state` if a later import has made another schedule of the event of one that was deleted."""
    taken = select(Schedule.name).where(
        Schedule.organization_id == uow.organization, Schedule.import_key.in_(keys.values())
    )
    name = uow.session.scalar(taken.limit(1)) if keys else None
    if name is not None:
        raise _changed(name)


def _changed(name: str) -> ServiceError:
    return ServiceError("invalid_state", f"{name!r} has been changed since the import, so it cannot be undone.")


def _change_back(uow: UnitOfWork, row: Schedule, before: Mapping[str, Any]) -> None:
    """Give a schedule the terms that it had, also as those that were imported: the next import changes them again."""
    terms = _stored(before)
    if "scope" in terms:
        terms["scope"] = _stored_scope(uow, terms["scope"])
    change(uow, row, terms)
    if row.imported is not None:
        row.imported = {**row.imported, **{name: value for name, value in terms.items() if name in row.imported}}


def _stored(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return terms that the audit shows as they are stored."""
    terms = _in_snake_case(shown)
    return terms | {name: _in_snake_case(terms[name]) for name in ("recurrence", "window") if name in terms}


def _stored_scope(uow: UnitOfWork, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scope that the audit shows, by the ids that branches and repositories keep when they are renamed."""
    if "branchId" in shown:
        return {"type": "branch", "branchId": shown["branchId"]}
    with suppress(ServiceError):  # one has left
        if shown["type"] == "repositories":
            return normalize(uow, dict(shown))
    return dict(shown)


def _in_snake_case(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {snake_case(name): value for name, value in shown.items()}
