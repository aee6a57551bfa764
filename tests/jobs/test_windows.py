"""Windows from end to end: heads are blocked while they are open, by a sweeper that comes in time, whatever it does."""

from datetime import timedelta
from time import monotonic

import pytest
from sqlalchemy import text

from jobs.sweep import MIN_PAUSE
from models.schedules import Occurrence
from services.maintenance.tasks import end_freezes
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.harness.concurrency import at_once, eventually, meanwhile
from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import work
from tests.jobs.conftest import NEVER, SweeperOf

HUNG = 6.0
"""Seconds that GitHub does not answer."""


def window(
    harness: Harness, after: timedelta = timedelta(hours=1), length: timedelta = timedelta(hours=1)
) -> Occurrence:
    """Plan a window of the whole organisation that begins so long from now."""
    schedule = factories.schedule(harness.session, harness.organization, planned_until=factories.now() + NEVER)
    starts_at = factories.now() + after
    row = factories.occurrence(harness.session, schedule, starts_at=starts_at, ends_at=starts_at + length)
    harness.session.commit()
    return row


def verdicts(harness: Harness) -> set[str | None]:
    return set(harness.conclusions().values())


class TestWindow:
    @pytest.mark.parametrize("workers_available", [True, False], ids=["with Redis", "without Redis"])
    def test_window_blocks_and_releases_every_head(
        self, harness: Harness, build: Builder, sweeper: SweeperOf, *, workers_available: bool
    ) -> None:
        build("api", "web")
        work(harness)
        window(harness)
        sweeping = sweeper(workers_available=workers_available)

        def settle() -> set[str | None]:
            harness.read_rules()
            sweeping.sweep()
            if workers_available:
                work(harness)
            return verdicts(harness)

        assert settle() == {"success"}
        harness.pass_time(hours=1)
        assert settle() == {"failure"}
        harness.pass_time(hours=1)
        assert settle() == {"success"}
        [row] = harness.sql("SELECT source, end_reason, enforced_at IS NOT NULL, released_at IS NOT NULL FROM freezes")
        assert tuple(row) == ("schedule", "schedule_ended", True, True)

    def test_adjacent_windows_write_no_success_in_between(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        work(harness)
        window(harness)
        window(harness, timedelta(hours=2))
        for _ in range(2):
            harness.pass_time(hours=1, seconds=1)
            sweeper(workers_available=False).sweep()
            assert verdicts(harness) == {"failure"}
        written = [write["conclusion"] for write in harness.fake_github.calls.writes]
        assert "success" not in written[written.index("failure") :]

    def test_window_with_an_overridden_freeze_stays_open_for_merges(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        work(harness)
        window(harness)
        harness.pass_time(hours=1)
        sweeper(workers_available=False).sweep()
        [[freeze]] = harness.sql("SELECT id FROM freezes")
        harness.lift(freeze)
        for _ in range(2):
            sweeper(workers_available=False).sweep()
        assert verdicts(harness) == {"success"}
        assert harness.sql("SELECT count(*) FROM freezes") == [(1,)]


class TestSweeper:
    def test_sweeper_wakes_for_the_next_window(self, harness: Harness, sweeper: SweeperOf) -> None:
        window(harness, timedelta(seconds=1000))
        assert sweeper().pause(2.0) == 2.0
        assert 995 < sweeper().pause(5000.0) <= 1000

    def test_sweeper_wakes_for_the_end_of_a_freeze(self, harness: Harness, build: Builder, sweeper: SweeperOf) -> None:
        build("web")
        with_end = factories.now() + timedelta(seconds=1000)
        harness.freeze(ends_at=with_end)
        assert 995 < sweeper().pause(5000.0) <= 1000

    def test_sweeper_pauses_at_least_the_minimum(self, harness: Harness, sweeper: SweeperOf) -> None:
        window(harness, timedelta(milliseconds=-5))
        window(harness, timedelta(seconds=1))
        assert sweeper().pause(2.0) >= MIN_PAUSE

    def test_sweeper_waits_its_period_when_the_database_fails(self, harness: Harness, sweeper: SweeperOf) -> None:
        window(harness, timedelta(seconds=10))
        harness.sql("REVOKE SELECT ON occurrences FROM change_freeze_worker")
        try:
            assert sweeper().pause(2.0) == 2.0
        finally:
            harness.sql("GRANT SELECT ON occurrences TO change_freeze_worker")

    @pytest.mark.check
    @pytest.mark.slow(6)
    def test_sweeper_begins_windows_when_other_work_waits_for_github(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        """Without workers it does their work itself, and a fan-out takes as long as it takes."""
        build("web")
        hang = harness.fake_github.faults.add("timeout", "graphql", count=1, seconds=HUNG)
        sweeping = sweeper(workers_available=False)
        with meanwhile(lambda over: sweeping.run(over, 0.2)):
            eventually(lambda: hang.struck)
            struck_at = monotonic()
            window(harness, timedelta(milliseconds=200))
            eventually(lambda: harness.sql("SELECT count(*) FROM freezes") == [(1,)])
            assert monotonic() - struck_at < HUNG


def test_sweepers_begin_and_end_each_window_once(harness: Harness, build: Builder) -> None:
    build("api", "web")
    work(harness)
    for _ in range(6):
        window(harness)
    harness.pass_time(hours=1)
    at_once(*[lambda: start_windows(harness.jobs)] * 2)
    start_windows(harness.jobs)
    harness.pass_time(hours=1)
    at_once(*[lambda: end_freezes(harness.jobs)] * 2)
    counts = {
        action: harness.sql("SELECT count(*) FROM audit_entries WHERE action = :action", action=action)[0][0]
        for action in ("freeze.started", "freeze.expired")
    }
    assert counts == {"freeze.started": 6, "freeze.expired": 6}
    harness.run_until_idle()
    assert verdicts(harness) == {"success"}
    assert harness.session.scalar(text("SELECT count(*) FROM freezes WHERE ended_at IS NULL")) == 0
    assert "reconcile" in harness.woken
