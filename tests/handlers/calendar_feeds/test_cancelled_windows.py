"""Windows that do not take place, in the calendar of a feed."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models.repositories import WatchedBranch
from models.schedules import Occurrence
from tests import factories
from tests.handlers.calendar_feeds.requests import events, new_feed, read
from tests.handlers.callers import Tenant
from tests.handlers.schedules.requests import NOON, created
from tests.harness.clock import MovableClock


class StoppedClock:
    """A clock that the test moves."""

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock
        self._set(factories.now())

    def _set(self, now: datetime) -> None:
        self.now = self._clock.at = now

    def move(self, by: timedelta) -> None:
        """Move the clock."""
        self._set(self.now + by)


@pytest.fixture(autouse=True)
def stopped(web: WatchedBranch, clock: MovableClock) -> StoppedClock:
    """Have a watched branch, and a clock that the test moves."""
    return StoppedClock(clock)


def titles(acme: Tenant, feed: dict[str, Any]) -> Counter[str]:
    return Counter(str(event["SUMMARY"]).partition(":")[0] for event in events(read(acme, feed)).values())


class TestCancelledWindows:
    def test_new_feed_shows_only_what_takes_place(self, acme: Tenant, stopped: StoppedClock) -> None:
        member, path = acme.person("member"), f"/v1/schedules/{created(acme.key())['id']}"
        member.post(f"{path}/skip-next")
        member.patch(path, {"window": NOON})
        stopped.move(timedelta(seconds=1))
        assert set(titles(acme, new_feed(member))) == {"Frozen"}

    def test_moved_and_removed_windows_say_so(self, acme: Tenant) -> None:
        member, path = acme.person("member"), f"/v1/schedules/{created(acme.key())['id']}"
        feed = new_feed(member)
        planned = titles(acme, feed)["Frozen"]
        member.patch(path, {"window": NOON})
        moved = titles(acme, feed)
        assert set(moved) == {"Frozen", "Moved"}
        assert moved["Moved"] == planned
        member.delete(path)
        assert set(titles(acme, feed)) == {"Cancelled"}

    def test_cancelled_windows_are_shown_for_14_days(self, acme: Tenant, stopped: StoppedClock) -> None:
        member, path = acme.person("member"), f"/v1/schedules/{created(acme.key())['id']}"
        feed = new_feed(member)
        member.patch(path, {"window": NOON})
        member.post(f"{path}/skip-next")
        stopped.move(timedelta(days=14))
        assert {"Moved", "Skipped"} <= set(titles(acme, feed))
        stopped.move(timedelta(seconds=1))
        assert set(titles(acme, feed)) == {"Frozen"}

    def test_window_more_than_90_days_away_is_shown(self, acme: Tenant, stopped: StoppedClock) -> None:
        day = (stopped.now + timedelta(days=200)).date().isoformat()
        created(acme.key(), recurrence={"frequency": "once", "startDate": day})
        row = acme.session.scalars(select(Occurrence)).one()
        assert list(events(read(acme, new_feed(acme.person("member"))))) == [row.id]

    def test_parameters_that_calendar_programs_add_are_ignored(self, acme: Tenant) -> None:
        feed = new_feed(acme.person("member"))
        answer = acme.http.get(feed["path"], params={"nocache": "1764", "": "x"})
        assert answer.status_code == 200

    def test_scope_and_person_of_a_freeze_are_described(self, acme: Tenant, web: WatchedBranch) -> None:
        wanted = {"scope": {"type": "branch", "branchId": web.id}, "reason": "Release under way"}
        assert acme.person("member").post("/v1/freezes", wanted).status_code == 201
        [event] = events(read(acme, new_feed(acme.person("member")))).values()
        assert str(event["DESCRIPTION"]).replace("\u2060", "").split("\n")[1:3] == [
            "Covers: acme/web:main",
            "Started by Member",
        ]
