"""Workers write what a due window decides, while no sweeper begins it, and after it is over."""

from datetime import timedelta

import pytest

from models.schedules import Occurrence
from rules.ids import id_of_freeze
from services.schedules.missed_windows import record_missed
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.harness.github_harness import Builder, Harness

HOUR = timedelta(hours=1)


@pytest.fixture
def due(harness: Harness, build: Builder) -> Occurrence:
    """Have every head allowed, and then a window of the whole organisation due for an hour, which nobody begins."""
    build("api", "web")
    harness.run_until_idle()
    schedule = factories.schedule(harness.session, harness.organization)
    starts_at = factories.now().replace(microsecond=0) + HOUR
    row = factories.occurrence(harness.session, schedule, starts_at=starts_at, ends_at=starts_at + HOUR)
    harness.session.commit()
    harness.pass_time(HOUR)
    return row


def verdicts(harness: Harness) -> set[str | None]:
    harness.run_until_idle()
    return set(harness.conclusions().values())


class TestWithoutSweeper:
    def test_worker_blocks_the_heads_of_a_due_window(self, harness: Harness, due: Occurrence) -> None:
        harness.make_due()
        assert verdicts(harness) == {"failure"}
        assert harness.sql("SELECT count(*) FROM freezes") == [(0,)]
        check = harness.run_on(harness.record().pulls[1])
        assert check.output["title"] == f"Merging into main is frozen until {due.ends_at:%Y-%m-%d %H:%M} UTC"
        assert id_of_freeze(due.id) in check.output["summary"]

    def test_window_that_begins_late_keeps_its_heads_blocked(self, harness: Harness, due: Occurrence) -> None:
        harness.read_rules()
        harness.make_due()
        assert verdicts(harness) == {"failure"}
        written = len(harness.fake_github.calls.writes)
        assert start_windows(harness.jobs) == 1
        assert verdicts(harness) == {"failure"}
        assert {write["conclusion"] for write in harness.fake_github.calls.writes[written:]} <= {"failure"}
        [row] = harness.sql("SELECT id, enforced_at IS NOT NULL FROM freezes")
        assert tuple(row) == (id_of_freeze(due.id), True)

    def test_lift_of_a_due_window_allows_its_heads(self, harness: Harness, due: Occurrence) -> None:
        harness.make_due()
        assert verdicts(harness) == {"failure"}
        harness.lift(id_of_freeze(due.id))
        assert verdicts(harness) == {"success"}
        [row] = harness.sql("SELECT end_reason, released_at IS NOT NULL FROM freezes")
        assert tuple(row) == ("lifted", True)

    def test_heads_of_a_window_that_never_began_are_allowed_again(self, harness: Harness, due: Occurrence) -> None:
        harness.make_due()
        assert verdicts(harness) == {"failure"}
        harness.pass_time(HOUR)
        assert record_missed(harness.jobs) == 1
        assert verdicts(harness) == {"success"}
