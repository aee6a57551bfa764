"""The worker: jobs are parts of the traces that woke them, a signal always stops it, and it does not hang unnoticed."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from types import SimpleNamespace

import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from app.worker import WakeupWorker
from integrations.traces import CURRENT, Trace, continued
from integrations.wakeups import QUEUE, RedisWakeups
from jobs.loop_watch import MAX_SECONDS_OF_SLOW, LoopWatch
from jobs.registry import JOBS

GIVEN = {"traceparent": f"00-{'1a' * 16}-{'2b' * 8}-01", "request_id": "a-request"}


@pytest.fixture
def queue(redis: Redis) -> Iterator[Queue]:
    yield Queue(QUEUE, connection=redis, serializer=JSONSerializer)
    redis.flushall()


def test_job_continues_the_trace_of_its_wake_up_and_is_logged(
    queue: Queue, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Trace | None] = []
    monkeypatch.setitem(JOBS, "mail", SimpleNamespace(run=lambda: ran.append(CURRENT.get())))
    with continued(GIVEN) as trace:
        RedisWakeups(redis_url).send({"mail"})
    caplog.set_level(logging.INFO, "app.worker")
    WakeupWorker([queue], Event(), LoopWatch()).work(burst=True, logging_level=None)
    assert ran == [trace]
    [line] = [record for record in caplog.records if record.name == "app.worker"]
    assert (line.__dict__["job"], line.__dict__["succeeded"]) == ("mail", True)


def test_wake_up_that_waits_keeps_its_trace_when_another_is_sent(queue: Queue, redis_url: str) -> None:
    wakeups = RedisWakeups(redis_url)
    for given in (GIVEN, {}):
        with continued(given):
            wakeups.send({"mail"})
    [waiting] = queue.jobs
    assert waiting.meta == GIVEN


def test_job_that_fails_is_one_error_with_its_traceback(
    queue: Queue, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError("a failure")

    monkeypatch.setitem(JOBS, "mail", SimpleNamespace(run=fail))
    RedisWakeups(redis_url).send({"mail"})
    WakeupWorker([queue], Event(), LoopWatch()).work(burst=True, logging_level=None)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    # The thread of an earlier test may still give up its spans.
    [error] = [record for record in errors if not record.name.startswith("opentelemetry.")]
    assert error.getMessage() == "a job failed and will be retried: mail"
    assert error.exc_info is not None
    assert error.exc_info[0] is LookupError


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("caught", [Exception, BaseException], ids=["exception", "everything"])
def test_signal_stops_a_worker_also_where_code_catches_it(
    queue: Queue, redis_url: str, monkeypatch: pytest.MonkeyPatch, caught: type[BaseException]
) -> None:
    ran: list[str] = []
    monkeypatch.setitem(JOBS, "mail", SimpleNamespace(run=lambda: ran.append("mail")))
    RedisWakeups(redis_url).send({"mail"})

    class Catching(WakeupWorker):
        def run_maintenance_tasks(self) -> None:
            with suppress(caught):  # as the handlers of logs do, and the interpreter in finalizers
                os.kill(os.getpid(), signal.SIGTERM)

    stop_requested = Event()
    with suppress(SystemExit):
        Catching([queue], stop_requested, LoopWatch()).work(burst=True, logging_level=None)
    assert stop_requested.is_set()
    assert (ran, len(queue)) == ([], 1)


def test_worker_that_hangs_between_jobs_ends_its_process(queue: Queue) -> None:
    ended = Event()
    watch = LoopWatch(ended.set)

    class Hanging(WakeupWorker):
        def run_maintenance_tasks(self) -> None:
            for _ in range(MAX_SECONDS_OF_SLOW):
                watch.count()
            assert not ended.is_set()
            watch.count()

    with watch.working(MAX_SECONDS_OF_SLOW):
        Hanging([queue], Event(), watch).work(burst=True, logging_level=None)
    assert ended.is_set()
