"""A restore of the database: noticed, shown to an operator, and confirmed.

While it is not confirmed, GitHub may show freezes that the database does not have any more. A full resync reads
everything back when a restore is noticed, so that what has to be blocked is blocked at once, and again when it is
confirmed.
"""

import logging
from datetime import timedelta
from typing import Any

from sqlalchemy import select, text

from models.database_identity import DatabaseIdentity
from models.installations import begin_full_resync
from models.organizations import Organization
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.restores import difference, is_failover
from services.core.database_identity import IdentityState, read_identity
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory

logger = logging.getLogger(__name__)

SEEN_INTERVAL = timedelta(seconds=10)
"""How often the database records that the service runs on it."""
SHOWN_FOR = timedelta(hours=1)
"""How long after the list was shown a restore may be confirmed."""
DECLARED = "an operator declared it restored"
_RESUME_RULES = tuple(
    (text(f"UPDATE {table} SET due_at = :now WHERE last_error_code = 'maintenance' AND due_at > :now"), job)  # noqa: S608
    for table, job in {
        "enforcement_setups": "setup",
        "frozen_branch_rulesets": "frozen_branches",
        "organization_stops": "stops",
    }.items()
)
"""Statements that make the work due that changes rules, and was withheld; each with its job."""


def notice_restore(uow_factory: UnitOfWorkFactory, *, synchronous_standbys: bool = False) -> bool:
    """Compare where the database runs with where it last ran; return True if it now counts as restored.

    With `synchronous_standbys` a fail-over has lost nothing, and needs no confirmation.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        state = read_identity(uow.session)
        if state.confirmed and uow.now - state.seen_at >= SEEN_INTERVAL:
            _identity(uow).seen_at = uow.now
        if state.recorded == state.present:
            return not state.confirmed
    with uow_factory.open(SYSTEM_CALLER) as uow:
        state = read_identity(uow.session, lock=True)
        found = difference(state.recorded, state.present)
        if found is None:
            return not state.confirmed  # another process was faster
        record = _record_place(uow, state)
        silence = uow.now - state.seen_at
        if synchronous_standbys and state.noticed_at is None and is_failover(state.recorded, state.present, silence):
            record.seen_at = uow.now
            begin_full_resync(uow.session, uow.now)  # what workers record is not committed synchronously
            logger.warning("PostgreSQL has failed over to a standby: %s", found)
            return False
        _mark(uow, record, found)
        return True


def declare_restored(uow: UnitOfWork) -> None:
    """Treat the database as restored, where nothing shows it: it was put back by a copy of its disk."""
    state = read_identity(uow.session, lock=True)
    _mark(uow, _record_place(uow, state), DECLARED)


def record_shown(uow: UnitOfWork) -> None:
    """Record that an operator was shown what confirming would release."""
    _identity(uow).shown_at = uow.now


def confirm_restore(uow_factory: UnitOfWorkFactory, *, by: str) -> None:
    """Release what the database says, from now on; the audit log of every organisation names the operator.

    Raise `invalid_state` if there is nothing to confirm, and `impact_preview_required` unless the list was just shown.
    """
    with uow_factory.open(Caller(None, Actor("support", None, by), "system")) as uow:
        state = read_identity(uow.session, lock=True)
        if state.confirmed:
            raise ServiceError("invalid_state", "There is no restore to confirm: the database runs where it did.")
        just_shown = state.shown_at is not None and uow.now - state.shown_at <= SHOWN_FOR
        if state.recorded != state.present or not just_shown:
            message = "See first what would be released: run `python -m app restore show`, and confirm within an hour."
            raise ServiceError("impact_preview_required", message)
        record = _identity(uow)
        record.noticed_at = record.difference = record.shown_at = None
        record.seen_at = uow.now
        begin_full_resync(uow.session, uow.now)
        for resume, job in _RESUME_RULES:
            uow.session.execute(resume, {"now": uow.now})
            uow.wake(job)
        _audit(uow, "service.restore_confirmed", noticedAt=state.noticed_at, lastSeenAt=state.seen_at)


def _mark(uow: UnitOfWork, record: DatabaseIdentity, found: str) -> None:
    record.noticed_at, record.difference, record.shown_at = uow.now, found, None
    begin_full_resync(uow.session, uow.now)
    with uow.act_as_service():
        _audit(uow, "service.restored", difference=found, lastSeenAt=record.seen_at)
    logger.warning(
        "the database was restored: %s. Nothing is released at GitHub until an operator runs `python -m app restore`",
        found,
    )


def _identity(uow: UnitOfWork) -> DatabaseIdentity:
    return uow.session.get_one(DatabaseIdentity, 1)


def _record_place(uow: UnitOfWork, state: IdentityState) -> DatabaseIdentity:
    """Record where the database runs now."""
    record, place = _identity(uow), state.present
    record.system_identifier, record.database_oid = place.system_identifier, place.database_oid
    record.table_oid, record.timeline = place.table_oid, place.timeline
    return record


def _audit(uow: UnitOfWork, action: str, **details: Any) -> None:
    """Add an entry to the audit log of every organisation."""
    organizations = select(Organization.id, Organization.name).where(Organization.purged_at.is_(None))
    for organization_id, name in uow.session.execute(organizations.order_by(Organization.id)).all():
        with uow.impersonate(organization_id=organization_id):
            uow.audit(action, ("organization", organization_id, name), **details)
