"""Waiting, and threads of tests: whatever fails, the test ends and says what failed.

No wait is without a limit, and a thread that hangs keeps neither its test nor the run from their end. A session of
SQLAlchemy belongs to one thread.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

PATIENCE = 120.0
"""Seconds until a wait is given up: far more than anything takes on a busy machine."""
INTERVAL = 0.02

T = TypeVar("T")


class Task(Future[T]):
    """Work in a thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the test gets it with the result
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = PATIENCE) -> T:
        """Return what the work returned, or raise what it raised; fail if it takes longer than `timeout` seconds."""
        wait([self], timeout)
        assert self.done(), f"still running after {timeout} s:\n{self._stack()}"
        return super().result()

    def _stack(self) -> str:
        """Return where the thread is."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else "(it has just ended)"


def eventually(condition: Callable[[], object], patience: float = PATIENCE, *, during: Task[Any] | None = None) -> None:
    """Return as soon as the condition holds; fail after `patience` seconds, or when the task ends before that."""
    give_up = time.monotonic() + patience
    while True:
        ended = during is not None and during.done()
        if condition():
            return
        if during is not None and ended:
            raise AssertionError(f"it ended too early, with {during.result()!r}")
        assert time.monotonic() < give_up, f"not within {patience} s"
        time.sleep(INTERVAL)


def at_once(*steps: Callable[[], T], threads: int | None = None) -> list[T]:
    """Take all the steps, at the same moment or so many at a time; return what they returned, in order."""
    count = threads or len(steps)
    begin, waiting = threading.Barrier(count, timeout=PATIENCE), SimpleQueue[tuple[int, Callable[[], T]]]()
    results = dict[int, T]()
    for numbered in enumerate(steps):
        waiting.put(numbered)

    def take() -> None:
        begin.wait()
        while True:
            try:
                number, step = waiting.get_nowait()
            except Empty:
                return
            results[number] = step()

    results_of([Task(take) for _ in range(count)])
    return [results[number] for number in range(len(steps))]


def results_of(tasks: Sequence[Task[T]]) -> list[T]:
    """Return the results of all tasks, or raise what the first of them to fail has raised."""
    for ended in wait(tasks, PATIENCE, FIRST_EXCEPTION).done:
        ended.result()
    return [task.result() for task in tasks]


@contextmanager
def meanwhile(*loops: Callable[[threading.Event], T]) -> Iterator[list[Task[T]]]:
    """Run each loop in a thread of its own until the event is set that it is given: when the block ends.

    Whatever a loop raises is raised here, rather than what the block fails with because of it.
    """
    over = threading.Event()
    tasks = [Task(lambda loop=loop: loop(over)) for loop in loops]  # type: ignore[misc]
    try:
        yield tasks
    except Exception:
        over.set()
        results_of(tasks)
        raise
    finally:
        over.set()
    results_of(tasks)
