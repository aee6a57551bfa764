"""Extending freezes: moving their end."""

from datetime import datetime

from sqlalchemy import select

from models.checks import mark_dirty
from models.freezes import Freeze, FreezeTarget
from rules.errors import ServiceError, field_error
from services.core.unit_of_work import UnitOfWork
from services.freezes.start import require_future
from services.freezes.windows import lock_freeze


def extend(uow: UnitOfWork, freeze_id: str, ends_at: datetime | None) -> Freeze:
    """Move the end of a freeze: a bounded end only moves later, or away (None); an open one takes any future end.

    Raise `freeze_not_found`, `invalid_state` once it has ended, `invalid_parameter` for an end that is no extension.
    """
    freeze = lock_freeze(uow, freeze_id)
    if not freeze.is_in_force(uow.now):
        raise ServiceError("invalid_state", "The freeze has ended; start a new one.")
    require_future(uow, ends_at)
    if freeze.ends_at is not None and ends_at is not None and ends_at < freeze.ends_at:
        raise field_error("/endsAt", "is earlier than the present end; lift the freeze to end it sooner")
    before, freeze.ends_at = freeze.ends_at, ends_at
    if before != ends_at:
        covered = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
        mark_dirty(uow.session, uow.session.scalars(covered).all(), uow.now)
        uow.wake("reconcile")
    uow.audit(
        "freeze.extended",
        ("freeze", freeze.id, freeze.reason),
        before={"endsAt": before},
        after={"endsAt": ends_at},
    )
    return freeze
