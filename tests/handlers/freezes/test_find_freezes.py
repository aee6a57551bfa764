"""Finding freezes: by the time in which they were in force, by words, and by people."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.freezes.requests import paths
from tests.handlers.people import through_pages

PATH = "/v1/freezes"
MARCH = {"inForceFrom": "2026-03-01T00:00:00Z", "inForceTo": "2026-04-01T00:00:00Z"}
ADA = {"type": "user", "id": "usr_ada", "name": "Ada Lovelace"}


def day(month: int, number: int, year: int = 2026) -> datetime:
    return datetime(year, month, number, 12, tzinfo=UTC)


def add(acme: Tenant, session: Session, reason: str, start: datetime, end: datetime | None, **columns: Any) -> None:
    """Add a freeze that started and ended."""
    ended = {"ended_at": end, "end_reason": "lifted", "ended_by": factories.SYSTEM} if end else {}
    factories.freeze(session, acme.organization, reason=reason, started_at=start, **{**ended, **columns})


def found(acme: Tenant, **filters: Any) -> list[str]:
    return [row["reason"] for row in acme.key("freeze:read").get(PATH, **filters).json()["data"]]


class TestInForce:
    def test_freezes_in_force_in_a_month_are_found(self, acme: Tenant, session: Session) -> None:
        in_march: dict[str, tuple[datetime, datetime | None]] = {
            "inside": (day(3, 5), day(3, 6)),
            "over the start": (day(2, 27), day(3, 2)),
            "over the end": (day(3, 31), day(4, 2)),
            "around it": (day(1, 1), day(6, 1)),
            "long, to its start": (day(1, 1), day(3, 2)),
            "still in force": (day(1, 1), None),
        }
        others: dict[str, tuple[datetime, datetime | None]] = {
            "before": (day(2, 1), day(2, 27)),
            "long before": (day(1, 1), day(2, 20)),
            "after": (day(4, 1), day(4, 2)),
            "still in force since after": (day(4, 1), None),
        }
        for reason, (start, end) in {**in_march, **others}.items():
            add(acme, session, reason, start, end)
        assert sorted(found(acme, **MARCH)) == sorted(in_march)

    def test_freeze_counts_to_its_planned_end_before_that_is_recorded(self, acme: Tenant, session: Session) -> None:
        add(acme, session, "Release of March", day(2, 1), None, ends_at=day(2, 3))
        assert found(acme, **MARCH) == []

    @pytest.mark.parametrize(
        ("filters", "path"),
        [
            ({"inForceFrom": MARCH["inForceFrom"]}, "inForceTo"),
            ({"inForceTo": MARCH["inForceTo"]}, "inForceFrom"),
            ({**MARCH, "inForceTo": "2027-04-06T00:00:00Z"}, "inForceTo"),
            ({**MARCH, "inForceTo": MARCH["inForceFrom"]}, "inForceTo"),
        ],
    )
    def test_range_without_both_ends_or_too_long_is_refused(
        self, acme: Tenant, filters: dict[str, str], path: str
    ) -> None:
        assert paths(refusal(acme.key().get(PATH, **filters), 400, "invalid_parameter")) == [path]


class TestWords:
    def test_freezes_are_found_by_words_of_reason_and_public_text(self, acme: Tenant, session: Session) -> None:
        add(acme, session, "Database migration", day(3, 1), day(3, 2))
        add(acme, session, "Quarter-end close", day(3, 3), day(3, 4), public_text="100% of payments wait")
        assert found(acme, q="MIGRATION") == ["Database migration"]
        assert found(acme, q="100%") == ["Quarter-end close"]
        assert found(acme, q="d%b") == []

    def test_freezes_are_found_by_who_started_or_ended_them(self, acme: Tenant, session: Session) -> None:
        add(acme, session, "By Ada", day(3, 1), day(3, 2), created_by=ADA)
        add(acme, session, "Lifted by Ada", day(3, 3), day(3, 4), ended_by=ADA)
        add(acme, session, "By nobody", day(3, 5), day(3, 6))
        assert found(acme, person="lovelace") == ["Lifted by Ada", "By Ada"]
        assert found(acme, person="usr_ada") == ["Lifted by Ada", "By Ada"]
        assert found(acme, person="Ada", q="lifted") == ["Lifted by Ada"]

    def test_found_freezes_have_pages(self, acme: Tenant, session: Session) -> None:
        for number in range(5):
            add(acme, session, f"Release {number}", day(3, 1) + timedelta(days=number), day(3, 20))
            add(acme, session, f"Incident {number}", day(3, 1) + timedelta(days=number), day(3, 20))
        shown = through_pages(acme.key(), PATH, 2, q="release", **MARCH)
        assert [row["reason"] for row in shown] == [f"Release {number}" for number in (4, 3, 2, 1, 0)]
