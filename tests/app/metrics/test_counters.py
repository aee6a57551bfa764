"""The counters of processes: what they count, and that no label has more values than promised."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy.exc
from prometheus_client import REGISTRY
from sqlalchemy import create_engine

import jobs.registry
from app.database import APP_ROLE, POOLS, READS_POOL, MeasuredPool, Reads, make_engine
from app.edge.worker_threads import Workers
from app.metrics import database_pools, saturation
from app.metrics.job_counters import MAX_CODES, JobCounters, QueueCounters
from app.metrics.saturation import Saturation
from jobs.context import Context, JobObserver
from jobs.registry import Job
from jobs.sweep import Sweeper
from rules.errors import ServiceError


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"change_freeze_{name}", labels) or 0.0


class Rise:
    """How far a value has risen since this was made."""

    def __init__(self, name: str, **labels: str) -> None:
        self._read: Callable[[], float] = lambda: value(name, **labels)
        self._before = self._read()

    def __call__(self) -> float:
        return self._read() - self._before


def test_codes_of_failures_are_limited() -> None:
    counters, other = QueueCounters(), Rise("queue_failures_total", queue="mail", code="other")
    for number in range(MAX_CODES + 5):
        counters.failed("mail", f"code_{number}", 2)
    counters.failed("mail", "code_0", 1)
    assert other() == 10
    assert value("queue_failures_total", queue="mail", code="code_0") == 3


def context_of(observer: JobObserver) -> Context:
    nothing = cast(Any, SimpleNamespace(uow_factory=None))
    return Context(nothing, nothing, nothing, lambda _: None, observer)


@pytest.mark.parametrize("code", ["Not a code", "ada@example.com", "x" * 41, ""])
def test_text_that_is_no_code_counts_as_other(code: str) -> None:
    other = Rise("queue_failures_total", queue="slack", code="other")
    QueueCounters().failed("slack", code, 1)
    assert other() == 1


def test_steps_of_jobs_are_counted_with_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([True, True, False])
    context = context_of(JobCounters())
    monkeypatch.setattr(jobs.registry, "get_context", lambda: context)
    steps = Rise("queue_step_duration_seconds_count", queue="sync")
    errors = Rise("queue_step_errors_total", queue="sync")
    Job("sync", lambda _: next(found), lambda _: True).run()
    assert (steps(), errors()) == (2, 0)
    with pytest.raises(ZeroDivisionError):
        Job("sync", lambda _: bool(1 / 0), lambda _: True).run()
    assert (steps(), errors()) == (2, 1)


def test_steps_of_the_sweep_that_fail_are_counted() -> None:
    errors = Rise("sweeper_task_errors_total")
    context = context_of(JobCounters())  # without a database every step fails
    Sweeper(context, lambda: False, cast(Any, None)).sweep()
    assert errors() > 20


def test_pool_counts_who_waits_and_who_waits_in_vain() -> None:
    pool = "of this test"
    engine = create_engine(
        "sqlite://", poolclass=MeasuredPool, pool_logging_name=pool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    waits, timeouts = Rise("database_pool_waits_total", pool=pool), Rise("database_pool_timeouts_total", pool=pool)
    with engine.connect():
        assert (waits(), timeouts()) == (0, 0)
        with pytest.raises(sqlalchemy.exc.TimeoutError):
            engine.connect()
    assert (waits(), timeouts()) == (1, 1)
    engine.dispose()


def test_threads_count_requests_that_wait_and_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.slots.MAX_WAIT_SECONDS", 0.01)
    waits = Rise("request_thread_waits_total", pool="of this test")
    refusals = Rise("request_thread_refusals_total", pool="of this test")

    async def fill() -> tuple[int, int]:
        workers, free = Workers(1, name="of this test"), asyncio.Event()
        loop = asyncio.get_running_loop()

        def occupy() -> None:
            asyncio.run_coroutine_threadsafe(free.wait(), loop).result(30)

        busy = asyncio.create_task(workers.run(occupy))
        await asyncio.sleep(0)
        during = workers.slots.in_use
        with pytest.raises(ServiceError):
            await workers.run(lambda: None)
        free.set()
        await busy
        workers.close()
        return during, workers.slots.in_use

    assert asyncio.run(fill()) == (1, 0)
    assert (waits(), refusals()) == (1, 1)


def test_saturation_shows_what_is_in_use(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications of other tests may be sampled at the same time: what they show is recorded too."""
    pools: list[tuple[str, int, int]] = []
    for module in (saturation, database_pools):
        monkeypatch.setattr(module, "sample_pool", lambda *shown: pools.append(shown))
    engine = make_engine(database, 7)

    async def sample() -> None:
        threads, reads = Workers(5, name="of this test"), Reads(database, 13)
        threads.slots.in_use, reads.slots.in_use = 2, 11
        async with Saturation([threads], [engine], reads).sampled():
            await asyncio.sleep(0)
        threads.close()

    with engine.connect():
        asyncio.run(sample())
    engine.dispose()
    assert value("request_threads", pool="of this test") == 5
    assert value("request_threads_busy", pool="of this test") == 2
    assert {(POOLS[APP_ROLE], 7, 1), (READS_POOL, 13, 11)} <= set(pools)


def test_pool_shows_its_size_and_what_is_in_use() -> None:
    database_pools.sample_pool("connections of this test", 4, 3)
    assert value("database_pool_connections", pool="connections of this test") == 4
    assert value("database_pool_connections_in_use", pool="connections of this test") == 3
