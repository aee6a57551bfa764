"""Schedules that collide: they share a watched branch, and an instant of their windows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.orm import Session

from models.organizations import Organization
from models.schedules import Schedule
from rules.errors import ServiceError
from rules.time.wall_clock import Interval
from services.schedules.overlaps import MAX_LISTED, Overlaps, overlaps_of, require_no_overlap
from tests import factories
from tests.harness.random_seed import exploring
from tests.services.conftest import UnitOfWorkOpener

HOUR = timedelta(hours=1)
NOON = factories.now().replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=2)
WEB: dict[str, Any] = {"type": "repositories", "repositories": ["acme/web"]}
API: dict[str, Any] = {"type": "glob", "patterns": ["acme/a*"]}


def windows(*hours: tuple[float, float]) -> list[Range[datetime]]:
    """Return windows from so many hours after noon until so many."""
    return [Range(NOON + start * HOUR, NOON + end * HOUR) for start, end in hours]


def draft(*hours: tuple[float, float]) -> Schedule:
    """Return a schedule that is not stored."""
    window = {"start_time": "12:00", "end_time": "13:00", "days": 0}
    return Schedule(scope=WEB, windows=windows(*hours), timezone="UTC", window=window)


class OverlapFixture:
    """An organisation with two repositories, and schedules that are compared in it."""

    def __init__(self, session: Session, organization: Organization, unit_of: UnitOfWorkOpener) -> None:
        self.session, self.organization, self.unit_of = session, organization, unit_of
        self.web = factories.watched(session, organization, "acme/web")
        self.api = factories.watched(session, organization, "acme/api")

    def add(self, *hours: tuple[float, float], **columns: Any) -> Schedule:
        made = factories.schedule(self.session, self.organization, **{"windows": windows(*hours), **columns})
        self.session.commit()
        return made

    def overlaps(self, schedule: Schedule) -> Overlaps:
        with self.unit_of(self.organization) as uow:
            return overlaps_of(uow, schedule)

    def names(self, schedule: Schedule) -> list[str]:
        return [overlap.schedule_name for overlap in self.overlaps(schedule).named]


@pytest.fixture
def schedules(session: Session, acme: Organization, unit_of: UnitOfWorkOpener) -> OverlapFixture:
    return OverlapFixture(session, acme, unit_of)


class TestOverlapsOf:
    def test_overlaps_share_an_instant_and_are_ordered_by_time(self, schedules: OverlapFixture) -> None:
        schedules.add((10, 11), (20, 30), name="later")
        schedules.add((3, 5), name="sooner")
        schedules.add((2, 3), name="just before")
        schedules.add((6, 10), name="between")
        found = schedules.overlaps(schedules.add((3, 6), (22, 23), name="mine"))
        assert [(each.schedule_name, each.first_overlap_at) for each in found.named] == [
            ("sooner", NOON + 3 * HOUR),
            ("later", NOON + 22 * HOUR),
        ]
        assert found.count == 2

    def test_overlaps_are_found_soon_and_weeks_ahead(self, schedules: OverlapFixture) -> None:
        schedules.add((721, 800), (900, 901), name="in a month")
        schedules.add((450, 510), name="in three weeks")
        schedules.add((395, 510), name="where one ends that begins soon")
        schedules.add((-1, 0), (300, 301), name="in the midst of it")
        found = schedules.overlaps(schedules.add((0, 1), (280, 400), (500, 501), (720, 722), name="mine"))
        assert [(each.schedule_name, each.first_overlap_at) for each in found.named] == [
            ("in the midst of it", NOON + 300 * HOUR),
            ("where one ends that begins soon", NOON + 395 * HOUR),
            ("in three weeks", NOON + 500 * HOUR),
            ("in a month", NOON + 721 * HOUR),
        ]

    def test_overlaps_require_a_shared_watched_branch(self, schedules: OverlapFixture) -> None:
        mine = schedules.add((0, 1), scope=WEB)
        schedules.add((0, 1), name="api", scope=API)
        schedules.add((0, 1), name="everything")
        schedules.add((0, 1), name="by its branch", scope={"type": "branch", "branchId": schedules.web.id})
        schedules.add((0, 1), name="releases", scope={"type": "organization", "branches": ["release/*"]})
        schedules.add((0, 1), name="gone", scope={"type": "repositories", "repositories": ["acme/gone"]})
        assert sorted(schedules.names(mine)) == ["by its branch", "everything"]

    def test_overlaps_ignore_unwatched_branches(self, schedules: OverlapFixture) -> None:
        mine = schedules.add((0, 1), scope=WEB)
        schedules.add((0, 1), name="everything")
        schedules.web.unwatched_at = factories.now()
        schedules.session.commit()
        assert schedules.names(mine) == []

    def test_overlap_begins_now_at_the_earliest(self, schedules: OverlapFixture) -> None:
        schedules.add((-240, 240))
        mine = schedules.add((-240, -100), (-99, 240))
        with schedules.unit_of(schedules.organization) as uow:
            (found,) = overlaps_of(uow, mine).named
            assert found.first_overlap_at == uow.now

    def test_overlaps_ignore_past_windows(self, schedules: OverlapFixture) -> None:
        schedules.add((-240, -100))
        assert schedules.overlaps(schedules.add((-240, -100))).count == 0

    def test_overlaps_are_all_counted_and_named_up_to_a_maximum(self, schedules: OverlapFixture) -> None:
        for _ in range(MAX_LISTED + 1):
            factories.schedule(schedules.session, schedules.organization, windows=windows((0, 1)))
        found = schedules.overlaps(schedules.add((0, 1)))
        assert (found.count, len(found.named)) == (MAX_LISTED + 1, MAX_LISTED)


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 6)), max_size=6)


def first_shared(one: Sequence[Interval], other: Sequence[Interval]) -> datetime | None:
    """Return the first instant, by trying each half hour, that lies in an interval of both."""
    for step in range(150):
        at = NOON + step * HOUR / 2
        if all(any(each.start <= at < each.end for each in intervals) for intervals in (one, other)):
            return at
    return None


@settings(max_examples=50 if exploring() else 25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mine=INTERVALS, theirs=INTERVALS)
def test_first_overlap_equals_the_first_shared_instant(
    schedules: OverlapFixture, mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    tried = first_shared(
        *([Interval(NOON + at * HOUR, NOON + (at + hours) * HOUR) for at, hours in drawn] for drawn in (mine, theirs))
    )
    saved = schedules.add(*((at, at + hours) for at, hours in theirs))
    found = schedules.overlaps(draft(*((at, at + hours) for at, hours in mine)))
    schedules.session.delete(saved)
    schedules.session.commit()
    assert [overlap.first_overlap_at for overlap in found.named] == ([tried] if tried else [])


class TestRefuseOverlaps:
    def test_overlap_error_has_a_detail_per_schedule(self, schedules: OverlapFixture) -> None:
        first = schedules.add((5, 6), name="Release night")
        second = schedules.add((3, 5), name="Audit")
        with schedules.unit_of(schedules.organization) as uow, pytest.raises(ServiceError) as refused:
            require_no_overlap(uow, schedules.add((0, 10)))
        assert refused.value.code == "schedule_overlap"
        assert "'Audit' and 1 more" in refused.value.message
        assert [(row.path, row.code, row.extra) for row in refused.value.details] == [
            (
                "/window",
                "schedule_overlap",
                {"scheduleId": row.id, "scheduleName": row.name, "firstOverlapAt": NOON + start * HOUR},
            )
            for row, start in ((second, 3), (first, 5))
        ]
