"""Pauses: how long an installation must not be called, because GitHub limited it.

A pause that an operator has ended is one that is over and has no beginning: `paused_until` is when it was ended. Each
process keeps pauses in its client too, and forgets them when it reads that.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, text

from models.installations import Installation
from models.queries import NOW
from services.core.unit_of_work import UnitOfWork

SAME_LIMIT_INTERVAL = timedelta(minutes=5)
"""A limit that is met again so soon after a pause counts as the same one."""


_PAUSE = text("SELECT paused_until, paused_since FROM installations WHERE id = :id AND paused_until IS NOT NULL")


def is_not_paused() -> ColumnElement[bool]:
    """Return the condition of installations that are not paused, for the candidates of a work queue."""
    return or_(Installation.paused_until.is_(None), Installation.paused_until <= NOW)


def is_callable() -> ColumnElement[bool]:
    """Return the condition of installations that are active and not paused, for the candidates of a work queue."""
    return and_(Installation.state == "active", is_not_paused())


def pause_installation(uow: UnitOfWork, installation_id: int, until: datetime) -> None:
    """Keep every worker away from an installation until then."""
    uow.session.execute(
        text(
            "UPDATE installations SET paused_until = greatest(coalesce(paused_until, :until), :until), "
            "paused_since = CASE WHEN paused_until >= :recent THEN coalesce(paused_since, :now) ELSE :now END "
            "WHERE id = :id"
        ),
        {"until": until, "id": installation_id, "now": uow.now, "recent": uow.now - SAME_LIMIT_INTERVAL},
    )


def end_pause(uow: UnitOfWork, installation_id: int) -> None:
    """Let every process call an installation again from now on."""
    end = text("UPDATE installations SET paused_until = :now, paused_since = NULL WHERE id = :id")
    uow.session.execute(end, {"id": installation_id, "now": uow.now})


def pause_left(uow: UnitOfWork, installation_id: int) -> timedelta:
    """Return for how long an installation is still paused; read before each call."""
    row = uow.session.execute(_PAUSE, {"id": installation_id}).one_or_none()
    if row is None:
        return timedelta(0)
    github = uow.dependencies.github
    if row.paused_since is None and github is not None:
        github.forget_pauses(installation_id, older_than=(uow.now - row.paused_until).total_seconds())
    until: datetime = row.paused_until
    return max(timedelta(0), until - uow.now)
