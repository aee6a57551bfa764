"""Minutes before a window begins its branches are probed, and what would not block needs attention until it does."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from models.enforcement import BranchEnforcement
from models.repositories import WatchedBranch
from services.maintenance.tasks import end_freezes
from services.schedules.verification import PROBE_TIMEOUT, compare_windows, verify_windows
from tests import factories
from tests.harness.wakeups import RecordedWakeups
from tests.services.schedules.windows import HOUR, Planned

MINUTE = timedelta(minutes=1)


def light(planned: Planned, branch: WatchedBranch, light: str, found_at: datetime | None = None) -> None:
    """Have a probe find a light."""
    if old := planned.session.get(BranchEnforcement, branch.id):
        planned.session.delete(old)
        planned.session.flush()
    found_at = found_at or planned.clock.at or factories.now()
    factories.branch_enforcement(planned.session, branch, light, verified_at=found_at)
    planned.session.commit()


def probes(planned: Planned) -> set[str]:
    """Return the branches that wait for a probe."""
    planned.session.rollback()
    waiting = select(BranchEnforcement.branch_id).where(BranchEnforcement.due_at.is_not(None))
    return set(planned.session.scalars(waiting))


def compare_at(planned: Planned, after: timedelta) -> list[str]:
    """Compare so long after the start, and return the types of the open items."""
    planned.come(after)
    assert compare_windows(planned.jobs) is True
    return [kind for kind, _message in planned.attention()]


@pytest.fixture
def requested(planned: Planned) -> Planned:
    """Return the schedule ten minutes before its window, the probes of its branches just requested."""
    planned.come(-10 * MINUTE)
    assert verify_windows(planned.jobs) == 1
    return planned


class TestProbes:
    def test_probes_are_requested_once_ten_minutes_before_a_window(
        self, planned: Planned, wakeups: RecordedWakeups
    ) -> None:
        planned.come(-11 * MINUTE)
        assert verify_windows(planned.jobs) == 0
        planned.come(-10 * MINUTE)
        assert [verify_windows(planned.jobs) for _ in range(2)] == [1, 0]
        assert probes(planned) == {planned.web.id, planned.api.id}
        assert "verify" in wakeups.sent

    def test_probes_are_requested_only_for_branches_of_the_scope(self, planned: Planned) -> None:
        planned.change(scope={"type": "repositories", "repositories": ["acme/web", "acme/gone"]})
        planned.come(-5 * MINUTE)
        verify_windows(planned.jobs)
        assert probes(planned) == {planned.web.id}

    @pytest.mark.parametrize("why", ["skipped", "disabled", "open"])
    def test_probes_are_not_requested_for_skipped_disabled_or_begun_windows(self, planned: Planned, why: str) -> None:
        planned.come(-5 * MINUTE)
        if why == "skipped":
            planned.occurrence.skip_reason = "asked"
        elif why == "disabled":
            planned.schedule.enabled = False
        else:
            planned.come()
        planned.session.commit()
        assert verify_windows(planned.jobs) == 0
        assert probes(planned) == set()


class TestAlert:
    def test_alert_names_branches_that_would_not_block(self, requested: Planned) -> None:
        light(requested, requested.web, "red")
        light(requested, requested.api, "amber")
        assert compare_at(requested, -9 * MINUTE) == ["window_not_enforced"]
        [(_kind, message)] = requested.attention()
        assert message.startswith(f"The window of Weekends from {requested.starts_at:%Y-%m-%d %H:%M} to ")
        assert message.endswith("is not known to block 1 of 2 branches: acme/web:main.")

    def test_alert_waits_for_the_probe(self, planned: Planned) -> None:
        light(planned, planned.web, "red", planned.starts_at - HOUR)
        light(planned, planned.api, "green", planned.starts_at - HOUR)
        planned.come(-10 * MINUTE)
        verify_windows(planned.jobs)
        assert compare_at(planned, -9 * MINUTE) == []
        assert compare_at(planned, -10 * MINUTE + PROBE_TIMEOUT) == ["window_not_enforced"]

    def test_alert_is_opened_for_branches_without_a_probe_in_time(self, requested: Planned) -> None:
        assert compare_at(requested, -10 * MINUTE + PROBE_TIMEOUT) == ["window_not_enforced"]
        assert "2 of 2 branches" in requested.attention()[0][1]

    def test_alert_is_resolved_when_the_branch_blocks_during_the_window(self, requested: Planned) -> None:
        light(requested, requested.web, "red")
        light(requested, requested.api, "green")
        compare_at(requested, -9 * MINUTE)
        requested.come()
        requested.begin()
        assert compare_at(requested, MINUTE) == ["window_not_enforced"]
        light(requested, requested.web, "green")
        assert compare_at(requested, 2 * MINUTE) == []

    def test_alert_is_resolved_when_the_window_is_over(self, requested: Planned) -> None:
        light(requested, requested.web, "red")
        compare_at(requested, -9 * MINUTE)
        requested.come()
        requested.begin()
        requested.come(HOUR)
        end_freezes(requested.jobs)
        assert compare_at(requested, HOUR + MINUTE) == []

    def test_alert_is_resolved_when_the_window_is_no_longer_planned(self, requested: Planned) -> None:
        light(requested, requested.web, "red")
        assert compare_at(requested, -9 * MINUTE) == ["window_not_enforced"]
        requested.session.delete(requested.occurrence)
        requested.session.commit()
        assert compare_at(requested, -8 * MINUTE) == []

    def test_windows_are_compared_at_most_every_half_minute(self, requested: Planned) -> None:
        requested.come(-9 * MINUTE)
        assert [compare_windows(requested.jobs) for _ in range(2)] == [True, False]
