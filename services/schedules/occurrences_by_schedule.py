"""The occurrences of several schedules in a range of time, by schedule, for lists of schedules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Text, func, literal, select, true
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import aliased

from models.schedules import Occurrence, Schedule
from rules.errors import field_error
from services.core.ranges import require_range
from services.core.unit_of_work import UnitOfWork
from services.schedules.later_occurrences import MAX_AHEAD, LaterWindows
from services.schedules.occurrence_views import occurrence_views
from services.schedules.occurrences import touching
from services.schedules.plans import HORIZON
from services.schedules.schedule_filters import one_of

MAX_RANGE = timedelta(days=366)
MAX_PER_SCHEDULE = 400
"""More than the windows of the longest range, of which one begins each day."""
_NAMES = ("occurrencesFrom", "occurrencesTo")


@dataclass(frozen=True, slots=True)
class OccurrenceRange:
    """The occurrences that end after one time and start before another."""

    since: datetime | None = None
    """By default now."""
    until: datetime | None = None
    """At most a year later; by default 90 days later."""


def occurrences_by_schedule(
    uow: UnitOfWork, schedule_ids: Sequence[str], wanted: OccurrenceRange
) -> Mapping[str, Sequence[dict[str, Any]]]:
    """Return the occurrences of each schedule in a range, as in the API, earliest start first.

    Those that are not stored yet are computed. Raise `invalid_parameter` if the range ends before it starts, or is
    longer than a year.
    """
    since = wanted.since or uow.now
    until = wanted.until or min(since, uow.now + MAX_AHEAD) + HORIZON
    require_range(wanted.since, wanted.until, _NAMES)
    if until - since > MAX_RANGE:
        message = f"{_NAMES[1]} may be {MAX_RANGE.days} days after {_NAMES[0]} (by default now) at most"
        raise field_error(_NAMES[1], message, message=f"{message}.")
    if until <= since:
        return dict.fromkeys(schedule_ids, ())
    later = LaterWindows(uow, until, *one_of(Schedule.id, schedule_ids)).ending_after(since)
    found = {one.id: one.occurrence() for one in later}
    found |= {row.id: row for row in _stored(uow, schedule_ids, since, until)}
    rows: dict[str, list[Occurrence]] = {schedule_id: [] for schedule_id in schedule_ids}
    for row in sorted(found.values(), key=lambda row: row.starts_at):
        if len(rows[row.schedule_id]) < MAX_PER_SCHEDULE:
            rows[row.schedule_id].append(row)
    shown = iter(occurrence_views(uow, [row for listed in rows.values() for row in listed]))
    return {schedule_id: list(islice(shown, len(listed))) for schedule_id, listed in rows.items()}


def _stored(uow: UnitOfWork, schedule_ids: Sequence[str], since: datetime, until: datetime) -> Sequence[Occurrence]:
    """Return the first rows of each schedule, each schedule looked up separately."""
    schedules = func.unnest(literal(list(schedule_ids), ARRAY(Text))).table_valued("id").render_derived("wanted")
    first = (
        select(Occurrence)
        .where(Occurrence.schedule_id == schedules.c.id, *touching(uow, since, until))
        .order_by(Occurrence.starts_at)
        .limit(MAX_PER_SCHEDULE)
        .lateral("first")
    )
    return uow.session.scalars(select(aliased(Occurrence, first)).select_from(schedules).join(first, true())).all()
