"""The resync: rounds over all checks of an installation, as often as its period and its share of the quota allow."""

from datetime import timedelta

import pytest

from services.maintenance import resync
from services.maintenance.resync import MAX_CALLS_AN_HOUR
from tests.harness.github_harness import Harness
from tests.jobs.setup.requests import add

PERIOD = timedelta(minutes=5)
USED = """
    INSERT INTO github_api_usage (installation_id, at, points, content)
    SELECT id, now(), :points, 0 FROM installations
"""


def requested(harness: Harness) -> int:
    """Return how many checks are to be read back."""
    [[count]] = harness.sql("SELECT count(*) FROM read_backs")
    return int(count)


def later(harness: Harness, **interval: int) -> bool:
    """Take the steps that are due after some time; True if any was."""
    harness.sql(
        "UPDATE installations SET resync_due_at = resync_due_at - make_interval(secs => :s), "
        "resync_began_at = resync_began_at - make_interval(secs => :s)",
        s=timedelta(**interval).total_seconds(),
    )
    return resync.resync(harness.jobs, PERIOD)


@pytest.fixture
def branches(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three repositories with a branch each, of which a step takes two."""
    monkeypatch.setattr(resync, "STEP", 2)
    add(harness, "api", "web", "docs")
    harness.session.commit()
    harness.sql("UPDATE installations SET resync_due_at = now()")
    harness.sql("DELETE FROM read_backs")


@pytest.mark.usefixtures("branches")
class TestRounds:
    def test_round_is_taken_in_steps(self, harness: Harness) -> None:
        assert later(harness)
        assert requested(harness) == 2
        assert not later(harness, seconds=5)
        assert later(harness, seconds=6)
        assert requested(harness) == 3
        assert harness.sql("SELECT due_at IS NOT NULL FROM branch_enforcement") == [(True,)] * 3

    def test_next_round_begins_when_the_period_is_over(self, harness: Harness) -> None:
        later(harness)
        later(harness, seconds=11)
        harness.sql("DELETE FROM read_backs")
        assert not later(harness, minutes=4)
        assert later(harness, minutes=1)
        assert requested(harness) == 2

    def test_steps_are_slow_while_a_tenth_of_the_quota_is_used(self, harness: Harness) -> None:
        harness.sql(USED, points=MAX_CALLS_AN_HOUR)
        later(harness)
        assert requested(harness) == 2
        assert not later(harness, minutes=4)
        assert later(harness, minutes=1)
        assert requested(harness) == 3

    def test_urgent_round_waits_for_nothing(self, harness: Harness) -> None:
        harness.sql(USED, points=MAX_CALLS_AN_HOUR)
        assert resync.full_resync(harness.jobs, PERIOD)
        assert requested(harness) == 3
        assert harness.sql("SELECT resync_urgent, resync_after FROM installations") == [(False, 0)]

    def test_suspended_installation_is_only_compared(self, harness: Harness) -> None:
        harness.sql("UPDATE installations SET state = 'suspended'")
        harness.sql("UPDATE repository_syncs SET due_at = NULL")
        later(harness)
        assert requested(harness) == 0
        assert harness.sql("SELECT due_at IS NOT NULL FROM repository_syncs") == [(True,)]

    def test_removed_repository_is_not_read(self, harness: Harness) -> None:
        harness.sql("UPDATE repositories SET removed_at = now() WHERE name <> 'web'")
        later(harness)
        later(harness, seconds=11)
        assert requested(harness) == 1
