"""The facts of the whole service that workers show as metrics, read from PostgreSQL and Redis when they are scraped.

A worker does it because it serves no requests, and answers while no API does; all workers show the same. Nothing is
read where nothing is scraped, and at most every five seconds for many that scrape. It has a connection of its own for
this, so that a read takes none from the jobs, and a job none from it. Each read has a time of its own, after which its
statement is ended; what could not be read is missing, and `change_freeze_read_success` says so.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from time import monotonic
from typing import Any

import redis
import sqlalchemy.exc
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg import Cursor
from psycopg.errors import QueryCanceled
from psycopg.sql import SQL, Literal
from sqlalchemy import Connection, event

from app.database import WORKER_ROLE, make_engine
from app.metrics import families
from app.metrics.families import Family
from app.metrics.readings import Reading, reads_of
from jobs.registry import queues_of
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory

logger = logging.getLogger(__name__)

MAX_AGE_SECONDS = 5.0
"""For how long what was read is shown again."""
MAX_READ_SECONDS = 0.5
"""Of one read, however many statements it has. All of them together take less than the ten seconds of Prometheus."""
MAX_LONG_READ_SECONDS = 2.5
LONG_READS = {"frozen_branches"}
"""Those that may take so long."""
MAX_STATEMENT_SECONDS = 1
"""Of what begins a transaction."""
MAX_SILENT_SECONDS = 3.0
"""After so long PostgreSQL is taken for unavailable."""
WAKEUPS = "wakeups"


def make_facts(database_url: str, jobs: UnitOfWorkFactory, count_wakeups: Callable[[], int]) -> "FactsCollector":
    """Return the collector of facts, with a connection of its own beside those of the jobs."""
    engine = make_engine(
        database_url, 1, WORKER_ROLE, answer_timeout=MAX_SILENT_SECONDS, statement_timeout=MAX_STATEMENT_SECONDS
    )
    return FactsCollector(UnitOfWorkFactory(engine, jobs.clock, jobs.wakeups, jobs.ports), count_wakeups)


class FactsCollector(Collector):
    """Reads the facts of the whole service."""

    def __init__(self, uow_factory: UnitOfWorkFactory, count_wakeups: Callable[[], int]) -> None:
        self._uow_factory = uow_factory
        self._count_wakeups = count_wakeups
        self._reads = reads_of(queues_of(uow_factory.ports))
        self._lock = Lock()
        self._read_at: float | None = None
        self._readings: list[Reading] = []

    def describe(self) -> Iterable[Metric]:
        """Name nothing: registering reads nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the facts, at most `MAX_AGE_SECONDS` old."""
        with self._lock:
            if self._read_at is None or monotonic() - self._read_at >= MAX_AGE_SECONDS:
                self._readings = list(self._read())
                self._read_at = monotonic()
            readings = self._readings
        values = defaultdict[Family, list[Reading]](list)
        for reading in readings:
            values[reading.family].append(reading)
        for family, found in values.items():
            metric = GaugeMetricFamily(family.full_name, family.meaning, labels=family.labels)
            for reading in found:
                metric.add_metric(reading.labels, reading.value)
            yield metric

    def _read(self) -> Iterator[Reading]:
        is_available = True
        for name, read in self._reads.items():
            began, found = monotonic(), None
            if is_available:
                try:
                    with self._uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
                        limit = MAX_LONG_READ_SECONDS if name in LONG_READS else MAX_READ_SECONDS
                        _limit(uow.session.connection(), began + limit)
                        found = list(read(uow))
                except sqlalchemy.exc.OperationalError as error:
                    is_available = isinstance(error.orig, QueryCanceled)
                    logger.warning("metrics: reading %s failed: %s", name, error.orig)
                except Exception:  # one mistake must not take the other metrics away
                    logger.exception("metrics: reading %s failed", name)
            yield from self._result(name, began, found)
        began = monotonic()
        try:
            yield from self._result(WAKEUPS, began, [Reading(families.WAKEUPS_QUEUED, self._count_wakeups())])
        except redis.RedisError as error:
            logger.warning("metrics: Redis is not available: %s", error)
            yield from self._result(WAKEUPS, began, None)

    def _result(self, name: str, began: float, found: list[Reading] | None) -> Iterator[Reading]:
        yield from found or ()
        yield Reading(families.READ_SUCCESS, float(found is not None), (name,))
        yield Reading(families.READ_DURATION, monotonic() - began, (name,))


def _limit(connection: Connection, until: float) -> None:
    """Have PostgreSQL end each further statement of this transaction at a time of `monotonic`."""

    def set_timeout(_: Connection, cursor: Cursor[Any], *__: object) -> None:
        milliseconds = max(1, round((until - monotonic()) * 1000))
        cursor.execute(SQL("SET LOCAL statement_timeout = {}").format(Literal(milliseconds)))

    event.listen(connection, "before_cursor_execute", set_timeout)
