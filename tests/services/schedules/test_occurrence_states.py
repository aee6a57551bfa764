"""The state of an occurrence, which follows from its instants and its freeze."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.schedule_queries import next_planned
from models.schedules import Occurrence
from services.schedules.occurrence_views import occurrence_view, state_of
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
