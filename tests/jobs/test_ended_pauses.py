"""A pause that an operator ends: everything that it put off is written at once, by every process."""

from datetime import timedelta

from services.core.unit_of_work import SYSTEM_CALLER
from services.github_access.pauses import pause_installation, pause_left
from services.maintenance.pauses import resume_installation
from tests.harness.github_harness import Builder, Harness

GRACE = "grace@example.com"


def limit(harness: Harness) -> None:
    """Have GitHub refuse one write, for longer than the test takes."""
    harness.fake_github.faults.add(
        "error", "createCheckRun", status=403, message="You have exceeded a secondary rate limit.", count=1
    )
    harness.run_until_idle()


def test_checks_are_written_at_once_when_a_pause_is_ended(harness: Harness, build: Builder) -> None:
    build("api", "web")
    harness.run_until_idle()
    harness.freeze()
    limit(harness)
    assert harness.run_until_idle() == 0
    resume_installation(harness.jobs, harness.installed.id, by=GRACE)
    assert harness.woken[-1] == "reconcile"
    harness.run_until_idle()
    assert set(harness.conclusions().values()) == {"failure"}


def test_limit_that_goes_on_pauses_again_after_a_pause_was_ended(harness: Harness, build: Builder) -> None:
    build("web")
    harness.run_until_idle()
    harness.freeze()
    limit(harness)
    resume_installation(harness.jobs, harness.installed.id, by=GRACE)
    limit(harness)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        assert pause_left(uow, harness.installed.id) > timedelta(seconds=30)
    assert harness.run_until_idle() == 0


def test_process_keeps_its_pause_where_nobody_has_ended_one(harness: Harness, build: Builder) -> None:
    build("web")
    harness.run_until_idle()
    harness.freeze()
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        pause_installation(uow, harness.installed.id, uow.now + timedelta(minutes=5))
    resume_installation(harness.jobs, harness.installed.id, by=GRACE)
    limit(harness)
    harness.sql("UPDATE installations SET paused_until = clock_timestamp()")
    harness.fake_github.calls.reset()
    harness.make_due()
    harness.run_until_idle()
    assert harness.fake_github.calls.writes == []
