"""Stops get a head start: a pass begins once those of its process are on, or their time is used up."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from jobs.background_thread import HeadStart, run_in_background


@pytest.fixture
def working() -> Iterator[Event]:
    """Have a job run in the background until the event is set."""
    end = Event()
    [thread] = run_in_background("held", lambda: not end.wait(60))
    yield end
    end.set()
    thread.join()


def give(head_start: HeadStart) -> Thread:
    thread = Thread(target=head_start.give, args=("held",), daemon=True)
    thread.start()
    return thread


def test_other_work_waits_until_the_job_has_ended(working: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadStart, "SECONDS", 60.0)
    waiting = give(HeadStart())
    waiting.join(0.1)
    assert waiting.is_alive()
    working.set()
    waiting.join(60)
    assert not waiting.is_alive()


def test_other_work_goes_on_when_the_time_is_used_up(working: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadStart, "SECONDS", 0.05)
    head_start = HeadStart()
    for _ in range(3):
        waiting = give(head_start)
        waiting.join(60)
        assert not waiting.is_alive()
    assert not working.is_set()


def test_time_that_is_used_up_comes_back_slowly(working: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job works all the time: a fifth of it belongs to the job alone."""
    now = [0.0]
    asked: list[float] = []

    def join(_thread: Thread, seconds: float) -> None:
        asked.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("jobs.background_thread.monotonic", lambda: now[0])
    monkeypatch.setattr(Thread, "join", join)
    head_start = HeadStart()
    head_start.give("held")
    head_start.give("held")
    now[0] += 5
    head_start.give("held")
    now[0] += 1000
    head_start.give("held")
    monkeypatch.undo()
    assert asked == pytest.approx([4, 0, 1, 4])


def test_nothing_waits_for_a_job_that_does_not_run() -> None:
    HeadStart().give("never started")


def test_job_has_as_many_threads_as_it_may() -> None:
    end = Event()
    threads = run_in_background("wide", lambda: not end.wait(60), threads=3)
    assert run_in_background("wide", end.is_set, threads=3) == threads
    end.set()
    for thread in threads:
        thread.join()
    assert len(set(threads)) == 3
