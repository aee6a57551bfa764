"""Pauses: how long an installation must not be called, because GitHub limited it.

A pause that an operator has ended is one that is over and has no beginning: `paused_until` is when it was ended. Each
process keeps pauses in its client too, and forgets them when it reads that.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, text

from integrations.github import GitHub
from models.installations import Installation
from models.queries import NOW
from services.core.unit_of_work import UnitOfWork

SAME_LIMIT_INTERVAL = timedelta(minutes=5)
"""A limit that is met again so soon after a pause counts as the same one."""


_PAUSE = text("""
    SELECT paused_until, paused_since, refused_until FROM installations
    WHERE id = :id AND (paused_until IS NOT NULL OR refused_until IS NOT NULL)
""")


def is_not_paused() -> ColumnElement[bool]:
    """Return the condition of installations that are not paused, for the candidates of a work queue."""
    return or_(Installation.paused_until.is_(None), Installation.paused_until <= NOW)


def is_callable() -> ColumnElement[bool]:
    """Return the condition of installations that are active and not paused, for the candidates of a work queue."""
    return and_(Installation.state == "active", is_not_paused())


def is_accepted() -> ColumnElement[bool]:
    """Return the condition of active installations whose calls GitHub does not refuse: only our own budget may wait."""
    not_refused = or_(Installation.refused_until.is_(None), Installation.refused_until <= NOW)
    return and_(Installation.state == "active", not_refused)


_BEGIN = text("""
    UPDATE installations
    SET paused_until = greatest(coalesce(paused_until, :until), :until),
        paused_since = CASE WHEN paused_until >= :recent THEN coalesce(paused_since, :now) ELSE :now END,
        refused_until = CASE WHEN :refused THEN greatest(coalesce(refused_until, :until), :until) ELSE refused_until END
    WHERE id = :id
""")


def pause_installation(uow: UnitOfWork, installation_id: int, until: datetime, *, refused: bool = False) -> None:
    """Keep every worker away from an installation until then; `refused`: by GitHub, and not by our own budget."""
    values = {"until": until, "id": installation_id, "now": uow.now, "recent": uow.now - SAME_LIMIT_INTERVAL}
    uow.session.execute(_BEGIN, {**values, "refused": refused})


def end_pause(uow: UnitOfWork, installation_id: int) -> None:
    """Let every process call an installation again from now on."""
    end = text("UPDATE installations SET paused_until = :now, paused_since = NULL, refused_until = NULL WHERE id = :id")
    uow.session.execute(end, {"id": installation_id, "now": uow.now})


def pause_left(uow: UnitOfWork, installation_id: int) -> timedelta:
    """Return for how long an installation is still paused; read before each call."""
    row = uow.session.execute(_PAUSE, {"id": installation_id}).one_or_none()
    return timedelta(0) if row is None else time_left(uow, installation_id, *row)[0]


def time_left(
    uow: UnitOfWork,
    installation_id: int,
    paused_until: datetime | None,
    paused_since: datetime | None,
    refused_until: datetime | None,
) -> tuple[timedelta, timedelta]:
    """Return for how long an installation is still paused, and refused; a pause that was ended is forgotten."""
    github = uow.ports.find(GitHub)
    if paused_until is not None and paused_since is None and github is not None:
        github.forget_pauses(installation_id, older_than=(uow.now - paused_until).total_seconds())
    paused, refused = (max(timedelta(0), (until or uow.now) - uow.now) for until in (paused_until, refused_until))
    return paused, refused
