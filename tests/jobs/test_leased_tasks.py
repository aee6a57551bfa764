"""The tasks of the sweep are leased: one process at a time runs one, and another one if the first has died."""

from threading import Event

import pytest

from jobs.context import Context
from jobs.sweep import LANES, LOST_WORK, SEALS, TIME, Sweeper
from models.requests import WINDOWS
from services.core.sweep_tasks import request_tasks
from services.core.unit_of_work import SYSTEM_CALLER
from tests.harness.concurrency import PATIENCE, eventually, meanwhile
from tests.harness.github_harness import Harness
from tests.jobs.conftest import NEVER

INTERVAL = 0.2
HELPERS = {task for lane in LANES for task in lane.helpers}


@pytest.fixture
def sweeper(harness: Harness, job_context: Context) -> Sweeper:
    """A sweeper whose workers can be woken."""
    harness.sql("DELETE FROM periodic_tasks")
    return Sweeper(job_context, lambda: True, NEVER)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were run, which do nothing."""
    names: list[str] = []

    def run(_: Sweeper, task: str) -> tuple[bool, list[str]]:
        names.append(task)
        return False, []

    monkeypatch.setattr(Sweeper, "run_task", run)
    return names


def lease(harness: Harness, task: str, holder: str = "NULL") -> None:
    """Have another process run a task, for the next 5 seconds unless it dies."""
    harness.sql(
        "INSERT INTO periodic_tasks (name, done_at, due_at, lease_token, lease_holder, lease_until) VALUES "
        f"(:name, now(), now() - interval '1 s', 'other', {holder}, clock_timestamp() + interval '5 s')",
        name=task,
    )


class TestLeases:
    def test_every_task_is_run_and_recorded(self, harness: Harness, sweeper: Sweeper, ran: list[str]) -> None:
        names = {task for lane in LANES for task in lane.tasks}
        with meanwhile(lambda over: sweeper.run(over, INTERVAL)):
            eventually(lambda: names <= set(ran))
        rows = harness.sql("SELECT name FROM periodic_tasks WHERE due_at > done_at AND lease_token IS NULL")
        assert names - HELPERS == {name for (name,) in rows}

    def test_task_is_run_again_after_its_interval(self, sweeper: Sweeper, ran: list[str]) -> None:
        with meanwhile(lambda over: sweeper.run(over, INTERVAL)):
            eventually(lambda: ran.count(WINDOWS) >= 3 and ran.count(LOST_WORK) >= 3)

    def test_helper_is_run_once_for_each_request(self, harness: Harness, sweeper: Sweeper, ran: list[str]) -> None:
        [helper, *_] = SEALS.helpers
        harness.sql("INSERT INTO periodic_tasks (name, done_at) VALUES (:name, now() - interval '1 hour')", name=helper)
        assert not sweeper._run_next(SEALS, INTERVAL)
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            request_tasks(uow, helper)
        assert harness.sql(
            "SELECT 1 FROM periodic_tasks WHERE name = :name AND done_at > now() - interval '1 min'", name=helper
        )
        assert sweeper._run_next(SEALS, INTERVAL)
        assert not sweeper._run_next(SEALS, INTERVAL)
        assert ran == [helper]

    def test_task_that_another_process_runs_is_left_to_it(
        self, harness: Harness, sweeper: Sweeper, ran: list[str]
    ) -> None:
        lease(harness, WINDOWS)
        assert not sweeper._run_next(TIME, INTERVAL)
        assert ran == []

    def test_task_of_a_process_that_hangs_is_run_by_another(
        self, harness: Harness, sweeper: Sweeper, ran: list[str]
    ) -> None:
        lease(harness, WINDOWS)
        harness.pass_time(seconds=6)
        assert sweeper._run_next(TIME, INTERVAL)
        assert ran == [WINDOWS]

    def test_task_of_a_process_that_died_is_run_by_another_at_once(
        self, harness: Harness, sweeper: Sweeper, ran: list[str]
    ) -> None:
        [[dead]] = harness.sql("INSERT INTO lease_holders (kind) VALUES ('worker') RETURNING id")
        lease(harness, WINDOWS, str(dead))
        assert sweeper._run_next(TIME, INTERVAL)
        assert ran == [WINDOWS]

    def test_process_that_only_looked_takes_over_when_another_died(
        self, harness: Harness, sweeper: Sweeper, ran: list[str]
    ) -> None:
        [[dead]] = harness.sql("INSERT INTO lease_holders (kind) VALUES ('worker') RETURNING id")
        lease(harness, WINDOWS, str(dead))
        with meanwhile(lambda over: sweeper.run(over, INTERVAL)):
            eventually(lambda: ran.count(WINDOWS) >= 2)


class TestLanes:
    def test_windows_begin_while_upkeep_takes_long(self, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch) -> None:
        hung, over, begun = Event(), Event(), Event()

        def run(_: Sweeper, task: str) -> tuple[bool, list[str]]:
            if task == WINDOWS and hung.is_set():
                begun.set()
            if task == "schedules":
                hung.set()
                over.wait(PATIENCE)
            return False, []

        monkeypatch.setattr(Sweeper, "run_task", run)
        with meanwhile(lambda stop: sweeper.run(stop, INTERVAL)):
            try:
                assert begun.wait(PATIENCE)
            finally:
                over.set()

    def test_window_that_begins_has_its_work_looked_for(
        self, harness: Harness, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.sql(
            "INSERT INTO periodic_tasks (name, done_at, due_at) VALUES "
            f"('{LOST_WORK}', now(), now() + interval '1 hour'), ('{WINDOWS}', now(), now())"
        )
        monkeypatch.setattr(Sweeper, "run_task", lambda *_: (True, []))
        assert sweeper._run_next(TIME, INTERVAL)
        due = "SELECT 1 FROM periodic_tasks WHERE name = :name AND due_at <= clock_timestamp()"
        assert harness.sql(due, name=LOST_WORK)
