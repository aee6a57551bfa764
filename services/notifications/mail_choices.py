"""What members chose to get mails of, in one organisation."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from models.notifications import MailChoice, NotificationDestination
from rules.audit.changes import differences
from rules.notifications.kinds import KINDS
from rules.notifications.mails import MAILED_KINDS, default_kinds
from services.core.entity_tags import require_match
from services.core.lookups import role_of_caller
from services.core.unit_of_work import UnitOfWork
from services.events.destinations import change_reminders


def show(uow: UnitOfWork) -> dict[str, Any]:
    """Return what the caller gets mails of, and what they can choose."""
    return _view(uow, uow.session.get(MailChoice, (uow.organization, uow.caller.signed_in_user)))


def change(
    uow: UnitOfWork,
    kinds: Collection[str] | None,
    remind_before: Collection[int] | None,
    if_match: str | None = None,
) -> dict[str, Any]:
    """Change what the caller gets mails of; None keeps it. Raise `precondition_failed`."""
    person = uow.caller.signed_in_user
    destination = select(NotificationDestination).where(NotificationDestination.id == uow.organization)
    uow.session.scalar(destination.with_for_update(key_share=True))  # so that changes of its reminders are serialized
    row = uow.session.get(MailChoice, (uow.organization, person))
    require_match(if_match, lambda: _view(uow, row))
    before = _chosen(uow, row)
    after = {
        "kinds": before["kinds"] if kinds is None else [kind for kind in MAILED_KINDS if kind in kinds],
        "remindBefore": before["remindBefore"] if remind_before is None else sorted(set(remind_before)),
    }
    old, new = differences(before, after)
    if new:
        stored = row.kinds if row is not None else None
        values = {
            # A member who has not chosen keeps the kinds of their role, also of a later one.
            "kinds": stored if kinds is None else after["kinds"],
            "remind_before": after["remindBefore"],
            "updated_at": uow.now,
        }
        key = {"organization_id": uow.organization, "user_id": person}
        statement = insert(MailChoice).values(**key, **values)
        uow.session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))
        _update_reminders(uow)
        target = ("user", person, uow.actor.name)
        uow.audit("member.notifications_changed", target, before=old, after=new)
    row = uow.session.get(MailChoice, (uow.organization, person), populate_existing=True)
    return _view(uow, row)


def _update_reminders(uow: UnitOfWork) -> None:
    """Give the destination the reminders of all members; each member gets only their own (`notices.py`)."""
    of_members = select(func.unnest(MailChoice.remind_before)).where(MailChoice.organization_id == uow.organization)
    change_reminders(uow, uow.organization, uow.session.scalars(of_members.distinct()).all())


def _chosen(uow: UnitOfWork, row: MailChoice | None) -> dict[str, Any]:
    kinds = default_kinds(role_of_caller(uow)) if row is None or row.kinds is None else row.kinds
    return {"kinds": list(kinds), "remindBefore": list(row.remind_before) if row is not None else []}


def _view(uow: UnitOfWork, row: MailChoice | None) -> dict[str, Any]:
    chosen = _chosen(uow, row)
    return {
        "kinds": chosen["kinds"],
        "remind_before": chosen["remindBefore"],
        "choices": [{"kind": kind, "meaning": KINDS[kind].meaning} for kind in MAILED_KINDS],
    }
