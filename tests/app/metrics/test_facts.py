"""The facts that a sweeper reads for its metrics: a read that fails affects no other, and none takes long."""

import itertools
import socket
from collections.abc import Callable, Iterator, Mapping

import pytest
import redis
from sqlalchemy import text

import app.database_connections
import app.metrics.facts
from app.config import ConfigurationError
from app.database import WORKER_ROLE
from app.metrics import families
from app.metrics.facts import (
    LONG_READS,
    MAX_AGE_SECONDS,
    MAX_LONG_READ_SECONDS,
    MAX_READ_SECONDS,
    FactsCollector,
    make_facts,
)
from app.metrics.readings import Read, Reading, reads_of
from app.metrics.server import listen
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWork, UnitOfWorkFactory
from tests.harness.concurrency import PATIENCE, Task
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

Values = Mapping[tuple[str, ...], float]
PROMETHEUS_TIMEOUT = 10
"""The default of `scrape_timeout`, in seconds."""


def values_of(facts: FactsCollector) -> Values:
    """Return the values by the name of the metric and its labels, without how long reading took."""
    return {
        (sample.name.removeprefix(families.PREFIX), *sample.labels.values()): sample.value
        for family in facts.collect()
        for sample in family.samples
        if "duration" not in sample.name
    }


@pytest.fixture
def jobs(database: str) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), DatabaseClock(), RecordedWakeups())


def executes(statement: str) -> Read:
    """Return a read of a metric that runs a statement."""

    def read(uow: UnitOfWork) -> Iterator[Reading]:
        uow.session.execute(text(statement))
        yield Reading(families.FREEZES_IN_FORCE, 1)

    return read


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Read]], None]:
    """Have other facts read."""
    return lambda reads: monkeypatch.setattr(app.metrics.facts, "reads_of", lambda _: reads)


@pytest.mark.parametrize("statement", ["SELECT 1 / 0", "SELECT pg_cancel_backend(pg_backend_pid())"])
def test_read_that_fails_affects_no_other(
    jobs: UnitOfWorkFactory, reading: Callable[[Mapping[str, Read]], None], statement: str
) -> None:
    reading({"failing": executes(statement), "good": executes("SELECT 1")})
    assert values_of(FactsCollector(jobs, lambda: 7)) == {
        ("freezes_in_force",): 1,
        ("read_success", "failing"): 0,
        ("read_success", "good"): 1,
        ("read_success", "wakeups"): 1,
        ("wakeups_queued",): 7,
    }


def test_read_that_writes_fails(jobs: UnitOfWorkFactory, reading: Callable[[Mapping[str, Read]], None]) -> None:
    reading({"writing": executes("DELETE FROM mails")})
    assert values_of(FactsCollector(jobs, lambda: 0))["read_success", "writing"] == 0


def test_statement_that_takes_too_long_is_ended(database: str, jobs: UnitOfWorkFactory) -> None:
    engine = make_facts(database, jobs, lambda: 0)._uow_factory.engine
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW statement_timeout")) == "1s"
    assert engine.pool.size() == 1  # type: ignore[attr-defined]
    engine.dispose()


def test_reads_that_take_too_long_cost_only_their_own_metrics(
    jobs: UnitOfWorkFactory, reading: Callable[[Mapping[str, Read]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.metrics.facts, "MAX_READ_SECONDS", 0.05)
    monkeypatch.setattr(app.metrics.facts, "LONG_READS", {"good"})
    slow = [f"slow {number}" for number in range(10)]
    reading({name: executes("SELECT pg_sleep(600)") for name in slow} | {"good": executes("SELECT 1")})
    values = values_of(FactsCollector(jobs, lambda: 0))
    assert [values["read_success", name] for name in [*slow, "good"]] == [0] * 10 + [1]


@pytest.mark.parametrize(
    ("name", "limit"), [("enforcement", MAX_READ_SECONDS), ("frozen_branches", MAX_LONG_READ_SECONDS)]
)
def test_statements_of_a_read_share_its_time(
    jobs: UnitOfWorkFactory,
    reading: Callable[[Mapping[str, Read]], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: float,
) -> None:
    now = [100.0]
    monkeypatch.setattr(app.metrics.facts, "monotonic", lambda: now[0])
    monkeypatch.setattr(app.metrics.facts, "MAX_READ_SECONDS", MAX_READ_SECONDS)
    monkeypatch.setattr(app.metrics.facts, "MAX_LONG_READ_SECONDS", MAX_LONG_READ_SECONDS)
    found: list[str] = []

    def read(uow: UnitOfWork) -> Iterator[Reading]:
        for _ in range(2):
            found.extend(uow.session.scalars(text("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'")))
            now[0] += limit - 0.1
        return iter(())

    reading({name: read})
    values_of(FactsCollector(jobs, lambda: 0))
    assert found == [f"{limit * 1000:.0f}", "100"]


def test_reads_of_all_facts_end_before_prometheus_gives_up() -> None:
    names = reads_of(()).keys()
    assert next(iter(names)) == "enforcement"
    assert names > LONG_READS
    longest = sum(MAX_LONG_READ_SECONDS if name in LONG_READS else MAX_READ_SECONDS for name in names)
    assert longest < PROMETHEUS_TIMEOUT


def test_facts_are_read_once_for_scrapes_that_follow_each_other(
    jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, counted = [100.0], itertools.count(1)
    monkeypatch.setattr(app.metrics.facts, "monotonic", lambda: now[0])
    facts = FactsCollector(jobs, lambda: next(counted))
    assert [values_of(facts)["wakeups_queued",] for _ in range(3)] == [1, 1, 1]
    now[0] += MAX_AGE_SECONDS
    assert values_of(facts)["wakeups_queued",] == 2


def test_unreachable_redis_costs_only_its_own_metric(jobs: UnitOfWorkFactory) -> None:
    def fail() -> int:
        raise redis.ConnectionError

    values = values_of(FactsCollector(jobs, fail))
    assert values["read_success", "wakeups"] == 0
    assert values["read_success", "queues"] == 1
    assert ("wakeups_queued",) not in values


@pytest.mark.check
def test_database_that_does_not_answer_is_tried_once(jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.database_connections, "CONNECT_TIMEOUT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing"
        facts = make_facts(address, jobs, lambda: 0)
        values = Task(lambda: values_of(facts)).result(PATIENCE)
        assert {value for key, value in values.items() if key[0] == "read_success" and key[1] != "wakeups"} == {0}
        silent.setblocking(False)
        assert _accepted(silent) <= 2, "one by the first read, and one by the check of PostgreSQL"


def _accepted(server: socket.socket) -> int:
    count = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_address_that_cannot_be_listened_on_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"METRICS_BIND 192\.0\.2\.1:9464 cannot be used: "):
        listen(("192.0.2.1", 9464))
