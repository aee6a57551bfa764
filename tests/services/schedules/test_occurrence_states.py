"""The state of an occurrence, which follows from its instants and its freeze."""

from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, get_args

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.schedule_queries import next_planned, with_freezes
from models.schedules import Occurrence, OccurrenceState
from services.schedules.occurrence_views import occurrence_columns, occurrence_view, state_of
from tests import factories
from tests.services.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)
NOW = factories.now()


def occurrence(starts: float, ends: float, **columns: Any) -> Occurrence:
    given: dict[str, Any] = {
        "late": False,
        "missed_at": None,
        "freeze_id": columns.get("started_at") and "frz",
        **columns,
    }
    return Occurrence(id="occ", schedule_id="sch", starts_at=NOW + starts * HOUR, ends_at=NOW + ends * HOUR, **given)


def freeze(*, ended: bool = False, ends: datetime | None = None) -> Freeze:
    return Freeze(started_at=NOW - HOUR, ends_at=ends, ended_at=NOW if ended else None)


class TestState:
    def test_occurrence_is_active_while_its_freeze_is_in_force(self) -> None:
        started = occurrence(-1, 1, started_at=NOW - HOUR)
        assert state_of(started, freeze(ends=NOW + HOUR), NOW) == "active"
        assert state_of(started, freeze(ended=True), NOW) == "past"
        assert state_of(started, freeze(ends=NOW), NOW) == "past"
        assert state_of(started, freeze(), NOW + HOUR) == "past"

    def test_occurrence_is_past_and_missed_when_it_never_began(self) -> None:
        over = occurrence(-2, -1)
        assert state_of(over, None, NOW) == "past"
        assert over.is_missed(NOW)
        assert not occurrence(-1, 1).is_missed(NOW)
        assert not occurrence(-2, -1, started_at=NOW - HOUR).is_missed(NOW)

    def test_occurrence_that_was_recorded_as_missed_is_past(self) -> None:
        assert state_of(occurrence(-1, 1, missed_at=NOW + HOUR), None, NOW) == "past"

    @pytest.mark.parametrize("reason", ["asked", "no_such_time", "no_targets"])
    def test_skipped_occurrence_stays_skipped(self, reason: str) -> None:
        for starts, ends in ((-2, -1), (-1, 1), (1, 2)):
            skipped = occurrence(starts, ends, skip_reason=reason)
            assert state_of(skipped, None, NOW) == "skipped"
            assert not skipped.is_missed(NOW)
            assert occurrence_view(skipped, None, NOW)["skip_reason"] == reason


def test_statement_shows_an_occurrence_as_its_row_does(
    session: Session, acme: Organization, unit_of: UnitOfWorkOpener
) -> None:
    schedule = factories.schedule(session, acme)
    began = NOW - HOUR
    ended = factories.freeze(session, acme, [], started_at=began, ended_at=NOW, end_reason="lifted")
    in_force = factories.freeze(session, acme, [], started_at=began)
    given: list[dict[str, Any]] = [
        {},
        {"skip_reason": "asked"},
        {"missed_at": NOW},
        {"started_at": began, "freeze_id": in_force.id},
        {"started_at": began, "freeze_id": ended.id},
        {"started_at": NOW - HOUR / 3 + timedelta(milliseconds=1500), "late": True},
        {"started_at": NOW - HOUR / 3, "late": True, "due_at": NOW - HOUR / 2},
    ]
    for number, columns in enumerate(given):
        for starts, ends in ((-1, 1), (-2, -1), (2, 3)):
            begins = NOW + starts * HOUR + timedelta(minutes=number)
            factories.occurrence(session, schedule, starts_at=begins, ends_at=NOW + ends * HOUR, **columns)
    session.commit()
    with unit_of(acme) as uow:
        by_row = [occurrence_view(row, freeze, NOW) for row, freeze in uow.session.execute(with_freezes())]
        query = select(*occurrence_columns(Occurrence, Freeze)).outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
        by_statement = [row._asdict() for row in uow.session.execute(query, {"now": NOW})]
    assert {view["state"] for view in by_row} == set(get_args(OccurrenceState))
    assert {view["late_seconds"] for view in by_row} > {0, 600}
    assert sorted(by_statement, key=itemgetter("id")) == sorted(by_row, key=itemgetter("id"))


def test_next_planned_occurrence_is_the_first_that_is_not_settled(
    session: Session, acme: Organization, unit_of: UnitOfWorkOpener
) -> None:
    schedule = factories.schedule(session, acme)
    spans = {"over": (-2, -1), "open": (-1, 1), "skipped": (-1, 2), "next": (1, 2)}
    rows = {
        name: factories.occurrence(
            session,
            schedule,
            starts_at=NOW + starts * HOUR + timedelta(milliseconds=number),
            ends_at=NOW + ends * HOUR,
            skip_reason="asked" if name == "skipped" else None,
        )
        for number, (name, (starts, ends)) in enumerate(spans.items())
    }
    first = rows["open"].id
    session.commit()
    with unit_of(acme) as uow:
        assert uow.session.scalars(next_planned(schedule.id, NOW)).one().id == first
