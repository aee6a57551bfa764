"""Tests in several processes, which are forked once all tests are collected: what is imported is imported once.

`-n 3` starts three workers. A worker takes a file from the list, runs its tests, and takes the next one: the tests of a
file run in one worker, in their order. Each worker has the fixtures of its own session. The process that collected runs
no test: it reports what workers send, and stops them at the first failure (`-x`) or when one of them breaks down.
"""

import itertools
import mmap
import os
import traceback
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest
from _pytest import runner

WORKER = "TEST_WORKER"
"""The variable that names a worker in its own environment: `w1`, `w2`, …"""
BYTES_OF_A_FILE = 4
MAX_FILES = 2**16 // BYTES_OF_A_FILE
"""What a pipe holds before anyone reads it."""


def add_option(parser: pytest.Parser) -> None:
    """Add the option that starts workers."""
    group = parser.getgroup("workers")
    # pytest keeps the short names in lower case to itself; this is the one that people know of pytest-xdist.
    group._addoption("-n", dest="workers", type=int, default=0, metavar="N", help="run files in so many processes")


def run_in_workers(session: pytest.Session) -> bool | None:
    """Run all tests in workers, if there are to be any. Raise if a worker breaks down, or the session has to stop."""
    count = session.config.getoption("workers")
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    vars(session.config)["_tmp_path_factory"].getbasetemp()  # one directory for all workers
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    pending = _Pending(len(files))
    workers = [_Worker(session, f"w{number}", files, pending) for number in range(1, count + 1)]
    try:
        _report(session, {worker.messages: worker for worker in workers})
    finally:
        pending.stop()
        for worker in workers:
            worker.join()
    return True


class _Pending:
    """The files that no worker has taken yet, and whether workers are to stop."""

    def __init__(self, count: int) -> None:
        if count > MAX_FILES:
            raise ValueError(f"{count} files are more than a pipe holds")
        self._stopped = mmap.mmap(-1, 1)  # shared with what is forked
        self._numbers, numbers = os.pipe()
        os.write(numbers, b"".join(number.to_bytes(BYTES_OF_A_FILE, "big") for number in range(count)))
        os.close(numbers)

    def take(self) -> Iterator[int]:
        """Yield the numbers of files until all are taken; each goes to one worker."""
        while number := os.read(self._numbers, BYTES_OF_A_FILE):
            yield int.from_bytes(number, "big")

    def stop(self) -> None:
        """Have workers run no further test."""
        self._stopped[0] = 1

    @property
    def stopped(self) -> bool:
        """True if workers are to run no further test."""
        return bool(self._stopped[0])


class _Worker:
    """A forked process, as the one that collected sees it."""

    def __init__(self, session: pytest.Session, name: str, files: list[list[pytest.Item]], pending: _Pending) -> None:
        self.name = name
        self.running = ""
        """The test that it runs."""
        self.messages, messages = Pipe(duplex=False)
        self.pid = os.fork()
        if self.pid == 0:
            _work(session, name, (files[number] for number in pending.take()), pending, messages)
        messages.close()

    def join(self) -> None:
        """Wait for its end; what it still sends is dropped."""
        with suppress(EOFError):
            while True:
                self.messages.recv()
        os.waitpid(self.pid, 0)


def _report(session: pytest.Session, workers: dict[Any, _Worker]) -> None:
    """Report what workers send until the last has ended. Raise if one breaks down, or the session has to stop."""
    while workers:
        for ready in wait(list(workers)):
            worker = workers[ready]
            try:
                kind, content = worker.messages.recv()
            except EOFError:
                kind, content = "failed", f"ended during {worker.running or 'its start'}"
            if kind == "ended":
                del workers[ready]
            elif kind == "failed":
                session.shouldfail = f"worker {worker.name} {content}"
            elif kind == "begins":
                worker.running = content
            else:
                _log(session.config, content)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)


def _log(config: pytest.Config, reports: list[dict[str, Any]]) -> None:
    """Log the reports of a test, as pytest itself does where the test runs."""
    for data in reports:
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)


def _work(
    session: pytest.Session, name: str, files: Iterator[list[pytest.Item]], pending: _Pending, messages: Connection
) -> NoReturn:
    """Run tests in this forked process and send what becomes of them; never return."""
    try:
        os.environ[WORKER] = name
        capture = session.config.pluginmanager.getplugin("capturemanager")
        if capture.is_globally_capturing():
            capture.stop_global_capturing()  # into files that all processes share
            capture.start_global_capturing()
            capture.suspend_global_capture()
        session.config.pluginmanager.register(_Sender(messages))
        try:
            for items in files:
                # After the last test of a file only what the session has is kept: the next file is not taken yet.
                for item, following in zip(items, [*items[1:], session], strict=True):
                    if not pending.stopped:
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            runner.pytest_sessionfinish(session)
        session.config._ensure_unconfigure()  # raises what nobody could catch, such as errors of threads
        messages.send(("ended", None))
    except BaseException:  # noqa: BLE001 - whatever it is, the other process reports it
        messages.send(("failed", f"broke down:\n{traceback.format_exc()}"))
    finally:
        os._exit(0)


class _Sender:
    """Sends the reports of a worker's tests instead of logging them."""

    def __init__(self, messages: Connection) -> None:
        self._messages = messages

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test."""
        self._messages.send(("begins", item.nodeid))
        reports = runner.runtestprotocol(item, log=False, nextitem=nextitem)
        hook, config = item.config.hook, item.config
        data = [hook.pytest_report_to_serializable(config=config, report=report) for report in reports]
        self._messages.send(("reports", data))
        return True
