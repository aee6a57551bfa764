"""A loop that does not turn while it works ends its process; one that works in batches, or waits, does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import create_engine, event, text

from app.wiring import STATEMENT_SECONDS, watch_statements
from jobs.context import Context, set_context
from jobs.loop_watch import EXIT_STATUS, MAX_SECONDS, MAX_SECONDS_OF_SLOW, LoopWatch, end_process
from jobs.registry import Job
from jobs.sweep import LANES, Lane, Sweeper
from tests.harness.github_harness import Harness


class EndedError(Exception):
    """The process has ended."""


def end() -> None:
    raise EndedError


@pytest.fixture
def watch() -> LoopWatch:
    return LoopWatch(end)


def count(watch: LoopWatch, seconds: int) -> None:
    for _ in range(seconds):
        watch.count()


@contextmanager
def another_loop(watch: LoopWatch) -> Iterator[None]:
    """Have another thread work, without a turn."""
    begun, over = Event(), Event()

    def work() -> None:
        with watch.working():
            begun.set()
            over.wait(30)

    thread = Thread(target=work)
    thread.start()
    assert begun.wait(10)
    yield
    over.set()
    thread.join(10)


def test_loop_that_does_not_turn_ends_the_process_after_15_seconds(watch: LoopWatch) -> None:
    with watch.working():
        count(watch, MAX_SECONDS)
        with pytest.raises(EndedError):
            count(watch, 1)


def test_task_that_works_in_batches_may_take_longer(watch: LoopWatch) -> None:
    with watch.working():
        for _ in range(10):
            count(watch, MAX_SECONDS)
            watch.turn()


def test_loop_that_waits_is_not_watched(watch: LoopWatch) -> None:
    with watch.working():
        count(watch, 1)
    watch.turn()
    count(watch, 10 * MAX_SECONDS)


def test_job_within_a_sweep_leaves_the_sweep_watched(watch: LoopWatch) -> None:
    with watch.working():
        count(watch, MAX_SECONDS)
        with watch.working():
            count(watch, MAX_SECONDS)
        count(watch, MAX_SECONDS)
        with pytest.raises(EndedError):
            count(watch, 1)


def test_loop_that_waits_for_slow_servers_has_longer_also_after_a_job(watch: LoopWatch) -> None:
    with watch.working(MAX_SECONDS_OF_SLOW):
        with watch.working():
            watch.turn()
        count(watch, MAX_SECONDS_OF_SLOW)
        watch.turn(within=STATEMENT_SECONDS)
        count(watch, MAX_SECONDS_OF_SLOW)
        with pytest.raises(EndedError):
            count(watch, 1)


def test_job_in_the_background_that_hangs_ends_the_process(harness: Harness) -> None:
    hung, over, ended = Event(), Event(), Event()

    def hang(_: Context) -> bool:
        hung.set()
        return over.wait(30) and False

    watch = LoopWatch(ended.set)
    context = Context(harness.jobs, harness.github, harness.reconciler, lambda _name: None, watch=watch)
    set_context(context)
    Job("hanging", hang, lambda _uow: True, in_background=True).run()
    assert hung.wait(10)
    count(watch, MAX_SECONDS_OF_SLOW)
    assert not ended.is_set()
    count(watch, 1)
    assert ended.is_set()
    over.set()


def test_turn_of_one_loop_is_none_of_another(watch: LoopWatch) -> None:
    with another_loop(watch), watch.working():
        for _ in range(MAX_SECONDS):
            watch.turn()
            count(watch, 1)
        watch.turn()
        with pytest.raises(EndedError):
            count(watch, 1)


def test_statement_is_a_turn_and_may_take_until_its_deadline(watch: LoopWatch, database: str) -> None:
    engine = create_engine(database)
    seconds: list[int] = []

    def wait(*_: object) -> None:
        count(watch, seconds[0])

    watch_statements(watch, engine)
    event.listen(engine, "before_cursor_execute", wait)
    with engine.connect() as connection, watch.working():
        seconds[:] = [STATEMENT_SECONDS]
        connection.execute(text("SELECT 1"))
        count(watch, MAX_SECONDS)
        connection.commit()
        count(watch, STATEMENT_SECONDS)
        seconds[:] = [STATEMENT_SECONDS + 1]
        with pytest.raises(EndedError):
            connection.execute(text("SELECT 1"))
    engine.dispose()


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_each_loop_of_the_sweep_is_watched(harness: Harness, monkeypatch: pytest.MonkeyPatch, lane: Lane) -> None:
    hung, over, ended, stop = Event(), Event(), Event(), Event()

    def hang(_: Sweeper, task: str) -> tuple[bool, list[str]]:
        if task in lane.tasks:
            hung.set()
            over.wait(30)
        return False, []

    watch = LoopWatch(ended.set)
    context = Context(harness.jobs, harness.github, harness.reconciler, lambda _name: None, watch=watch)
    monkeypatch.setattr(Sweeper, "run_task", hang)
    running = Thread(target=Sweeper(context, lambda: True, timedelta(days=1)).run, args=(stop, 0.01))
    running.start()
    assert hung.wait(10)
    count(watch, 2 * MAX_SECONDS)
    assert ended.is_set()
    stop.set()
    over.set()
    running.join(10)
    assert not running.is_alive()


def test_process_that_ends_logs_the_stack_of_each_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    end_process()
    assert ended == [EXIT_STATUS]
    [record] = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert any("test_process_that_ends" in "".join(stack) for stack in record.__dict__["stacks"].values())
