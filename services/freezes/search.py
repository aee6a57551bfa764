"""Finding freezes: by the time in which they were in force, by words, and by people.

The time is found by indexes: what overlaps with a range started in it or less than `LONG` before it, is still running,
or lasted for `LONG` at least. Words and names have no index: they are looked for in the newest `MAX_SEARCHED` freezes
that the other filters match.
"""

from datetime import datetime, timedelta
from typing import LiteralString

from sqlalchemy import ColumnElement, Select, or_, text
from sqlalchemy.orm import aliased

from models.freezes import LONG_FREEZE, Freeze
from rules.errors import field_error
from rules.time.due_windows import DueWindow
from services.core.unit_of_work import UnitOfWork

MAX_SEARCHED = 10_000
"""Freezes in which words and names are looked for."""
MAX_RANGE = timedelta(days=400)
LONG = timedelta(days=28)
"""As in `LONG_FREEZE`."""
_LASTS: LiteralString = """
    organization_id = :organization AND started_at < :until
    AND (ended_at > :since OR ended_at IS NULL AND (ends_at IS NULL OR ends_at > :since))
"""
# A list of ids: as a part of another statement, what is found would be joined with a scan of all freezes, since nothing
# is known of how long they are.
OVERLAPPING = text(f"""
    SELECT id FROM freezes WHERE {_LASTS} AND started_at >= :earliest
    UNION ALL SELECT id FROM freezes WHERE {_LASTS} AND started_at < :earliest AND ended_at IS NULL
    UNION ALL SELECT id FROM freezes WHERE {_LASTS} AND started_at < :earliest AND ended_at > :since AND {LONG_FREEZE}
""")  # noqa: S608 - constants of ours


def overlapping(uow: UnitOfWork, since: datetime | None, until: datetime | None) -> list[str]:
    """Return the ids of the freezes that were in force at some time from `since` to `until`, excluding its end.

    Raise `invalid_parameter` unless both are given, `MAX_RANGE` apart at most.
    """
    if since is None or until is None or until - since > MAX_RANGE:
        name = "inForceFrom" if since is None else "inForceTo"
        message = f"{name} must be given, and the range be {MAX_RANGE.days} days long at most"
        raise field_error(name, message, message=f"{message}.")
    values = {"organization": uow.organization, "since": since, "until": until, "earliest": since - LONG}
    return list(uow.session.scalars(OVERLAPPING, values))


def newest_of(query: Select[Freeze]) -> type[Freeze]:
    """Return the newest freezes of a query, of which a query can find some: as a table of their own, read first."""
    newest = query.order_by(Freeze.started_at.desc(), Freeze.id.desc()).limit(MAX_SEARCHED)
    return aliased(Freeze, newest.subquery("newest"))


def has_words(row: type[Freeze], words: str) -> ColumnElement[bool]:
    """Return the condition that a text of a freeze has the words in it."""
    return or_(*(column.icontains(words, autoescape=True) for column in (row.reason, row.public_text)))


def is_by(row: type[Freeze], person: str) -> ColumnElement[bool]:
    """Return the condition that a person of this id, or with this in the name, started or ended a freeze."""
    actors = (row.created_by, row.ended_by)
    ids = (actor["id"].astext == person for actor in actors)
    return or_(*ids, *(actor["name"].astext.icontains(person, autoescape=True) for actor in actors))


def window_matches(
    window: DueWindow, words: str | None, person: str | None, since: datetime | None, until: datetime | None
) -> bool:
    """True if the freeze of a due window, which is no row yet, is found as well."""
    texts = (window.reason, window.public_text or "")
    return (
        (words is None or any(words.casefold() in each.casefold() for each in texts))
        and (person is None or person == window.schedule_id or person.casefold() in window.schedule_name.casefold())
        and (since is None or window.ends_at > since)
        and (until is None or window.starts_at < until)
    )
