"""The worker: a job is a part of the trace that woke it, and its log line says so."""

import logging
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace

import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from app.worker import WakeupWorker
from integrations.traces import CURRENT, Trace, continued
from integrations.wakeups import QUEUE, RedisWakeups
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
    WakeupWorker([queue], Event()).work(burst=True, logging_level=None)
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
    WakeupWorker([queue], Event()).work(burst=True, logging_level=None)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    # The thread of an earlier test may still give up its spans.
    [error] = [record for record in errors if not record.name.startswith("opentelemetry.")]
    assert error.getMessage() == "a job failed and will be retried: mail"
    assert error.exc_info is not None
    assert error.exc_info[0] is LookupError
