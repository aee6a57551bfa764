"""The state of an occurrence, which is derived twice: of rows in hand, and in SQL."""

import itertools
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.schedule_queries import OccurrenceState, missed, next_planned, state_is, with_freezes
from models.schedules import Occurrence
from services.schedules.occurrence_views import is_missed, occurrence_view, state_of
from tests import factories
from tests.services.conftest import Opener

HOUR = timedelta(hours=1)
NOW = factories.now()


def occurrence(starts: float, ends: float, **columns: Any) -> Occurrence:
    given: dict[str, Any] = {"late": False, "missed_at": None, **columns}
    return Occurrence(id="occ", schedule_id="sch", starts_at=NOW + starts * HOUR, ends_at=NOW + ends * HOUR, **given)


def freeze(*, ended: bool = False, ends: datetime | None = None) -> Freeze:
    return Freeze(started_at=NOW - HOUR, ends_at=ends, ended_at=NOW if ended else None)


class TestState:
    def test_is_planned_until_it_begins_also_while_it_is_open(self) -> None:
        assert state_of(occurrence(1, 2), None, NOW) == "planned"
        assert state_of(occurrence(-1, 1), None, NOW) == "planned"

    def test_is_active_while_its_freeze_is_in_force_until_its_end(self) -> None:
        begun = occurrence(-1, 1, begun_at=NOW - HOUR)
        assert state_of(begun, freeze(ends=NOW + HOUR), NOW) == "active"
        assert state_of(begun, freeze(ended=True), NOW) == "past"
        assert state_of(begun, freeze(ends=NOW), NOW) == "past"
        assert state_of(begun, freeze(), NOW + HOUR) == "past"

    def test_begun_early_is_active_before_its_start(self) -> None:
        assert state_of(occurrence(1, 2, begun_at=NOW), freeze(ends=NOW + 2 * HOUR), NOW) == "active"

    def test_is_past_and_missed_when_it_never_began(self) -> None:
        over = occurrence(-2, -1)
        assert state_of(over, None, NOW) == "past"
        assert is_missed(over, NOW)
        assert not is_missed(occurrence(-1, 1), NOW)
        assert not is_missed(occurrence(-2, -1, begun_at=NOW - HOUR), NOW)

    @pytest.mark.parametrize("reason", ["asked", "no_such_time", "no_targets"])
    def test_that_is_skipped_stays_so(self, reason: str) -> None:
        for starts, ends in ((-2, -1), (-1, 1), (1, 2)):
            skipped = occurrence(starts, ends, skip_reason=reason)
            assert state_of(skipped, None, NOW) == "skipped"
            assert not is_missed(skipped, NOW)
            assert occurrence_view(skipped, None, NOW)["skip_reason"] == reason


SPANS = [(-2, -1), (-1, 1), (-1, 0), (1, 2)]
"""Hours from now on."""
FREEZES: list[dict[str, Any] | None] = [
    None,
    {},
    {"ended_at": NOW - HOUR},
    {"ends_at": NOW - HOUR},
    {"ends_at": NOW + HOUR},
]
REASONS = [None, "asked"]


def test_sql_and_python_tell_the_same_of_every_occurrence(
    session: Session, acme: Organization, unit_of: Opener
) -> None:
    schedule = factories.schedule(session, acme)
    kinds = list(itertools.product(SPANS, FREEZES, REASONS))
    for number, ((starts, ends), ran, reason) in enumerate(kinds):
        started = None
        if ran is not None:
            started = factories.freeze(session, acme, (), started_at=NOW - 3 * HOUR, **ran)
        factories.occurrence(
            session,
            schedule,
            starts_at=NOW + starts * HOUR - timedelta(milliseconds=number),
            ends_at=NOW + ends * HOUR,
            begun_at=NOW - 2 * HOUR if started else None,
            freeze_id=started.id if started else None,
            skip_reason=reason,
            missed_at=NOW if started is None and reason is None and ends <= 0 else None,
        )
    session.commit()
    with unit_of(acme) as uow:
        rows = [(row, ran) for row, ran in uow.session.execute(with_freezes())]
        assert len(rows) == len(kinds)
        for state in get_args(OccurrenceState):
            found = uow.session.scalars(with_freezes().where(state_is(state, NOW)))
            assert {row.id for row in found} == {row.id for row, ran in rows if state_of(row, ran, NOW) == state}
        gone = uow.session.scalars(with_freezes().where(missed(NOW)))
        assert {row.id for row in gone} == {row.id for row, _ in rows if is_missed(row, NOW)}
        planned = [row for row, ran in rows if state_of(row, ran, NOW) == "planned"]
        first = uow.session.scalars(next_planned(schedule.id, NOW)).one()
        assert first.id == min(planned, key=lambda row: row.starts_at).id
