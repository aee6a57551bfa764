"""The worker process, `python -m app worker`: runs jobs when RQ delivers their wake-ups. Start one per spare core.

Each worker reads one queue, because RQ can lose a job that it moves between two. Jobs run in the worker's own process,
which keeps tokens and connections. RQ retries nothing: PostgreSQL records what is due, and the sweeper sends new
wake-ups. RQ's worker exits when Redis hangs; the program then restarts itself in the same process.
"""

import logging
import os
import sys
import time
from collections.abc import Sequence
from threading import Event
from types import FrameType
from typing import Any, NoReturn

import redis
from redis.client import Pipeline
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, load_config
from app.database import WORKER_ROLE
from app.gc_tuning import freeze_gc
from app.metrics.processes import serve_metrics
from app.stop_signals import end_when_asked
from app.telemetry import telemetry
from app.wiring import await_database, job_context, lock_of, report_restore, take_lock
from integrations.traces import continued
from integrations.wakeups import QUEUE, connect
from jobs.context import set_context
from jobs.loop_watch import MAX_SECONDS_OF_SLOW, LoopWatch
from services.core.lease_holder import PooledConnectionError

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 15.0
"""For a connection to Redis; RQ sets a longer one for answers, since it waits in one call for a wake-up."""
HEARTBEAT_SECONDS = 30
"""Lifetime of the key by which RQ knows that the worker is alive, and interval of its own clean-up."""
RESTART_DELAY_SECONDS = 1.0


class WakeupWorker(SimpleWorker):
    """RQ's worker with short intervals: it finds jobs of killed workers, and reconnects to Redis, within seconds."""

    max_connection_wait_time = 2.0

    def __init__(self, queues: list[Queue], stop_requested: Event, watch: LoopWatch) -> None:
        self._stopping, self._watch = stop_requested, watch
        super().__init__(
            queues,
            connection=queues[0].connection,
            serializer=JSONSerializer,
            worker_ttl=HEARTBEAT_SECONDS,
            maintenance_interval=HEARTBEAT_SECONDS,
            log_job_description=False,
        )

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Run a job as a part of the trace that woke it, and log it."""
        began = time.perf_counter()
        with continued(job.meta):
            succeeded: bool = super().perform_job(job, queue)
            milliseconds = round((time.perf_counter() - began) * 1000, 2)
            logger.info("job", extra={"job": job.args[0], "succeeded": succeeded, "milliseconds": milliseconds})
        return succeeded

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Log the error that has ended a job."""
        logger.error("a job failed and will be retried: %s", job.args[0], exc_info=exc_info)

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Tell Redis that the worker is alive, and the watch if the loop turns. Raise StopRequested if it has to stop.

        The loop calls it before and after each wait and each job; what happens within a job has a pipeline.
        """
        if pipeline is None:
            self._watch.turn()
            if self._stopping.is_set():
                raise StopRequested
        super().heartbeat(timeout, pipeline)

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finish the current job, then stop: at once between jobs.

        The signal may come while the log or the Redis client is at work, which catches every Exception. So another kind
        is raised; where that is caught as well, the loop stops when it turns.
        """
        self._stopping.set()
        try:
            super().request_stop(signum, frame)  # type: ignore[no-untyped-call]
        except StopRequested:
            raise SystemExit from None


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT, finishing the current job; restart when a failure of Redis ends RQ's worker."""
    parser_of("worker", "Run jobs from Redis until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        logs.configure(config.log_level)
        logs.announce_start("worker")
        lock = lock_of(config, "worker")
        context = job_context(config, lock)
        serve_metrics(config, context)
        end_when_asked()
        await_database(config.database_url, WORKER_ROLE)
        heartbeat = take_lock(lock)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        logs.report_failed_start("worker", error)
        return 3
    report_restore(context.uow_factory, config)
    set_context(context)
    queue = Queue(
        QUEUE, connection=connect(config.redis_url, timeout=CONNECT_TIMEOUT_SECONDS), serializer=JSONSerializer
    )
    logging.getLogger("rq").setLevel(max(logging.WARNING, logging.getLevelName(config.log_level)))
    stop_requested = Event()
    freeze_gc()
    context.watch.start()
    with telemetry(config, "worker"):
        try:
            with context.watch.working(MAX_SECONDS_OF_SLOW):
                WakeupWorker([queue], stop_requested, context.watch).work(with_scheduler=False, logging_level=None)
        except redis.RedisError as error:
            logger.warning("the connection to Redis failed: %s", error)
        except SystemExit:
            pass  # a signal asked it to stop
        end_when_asked()
    if not stop_requested.is_set():
        _restart()
    heartbeat.stop()
    return 0


def _restart() -> NoReturn:
    logger.warning("the worker restarts in %.0f s; until then the sweeper runs its jobs", RESTART_DELAY_SECONDS)
    time.sleep(RESTART_DELAY_SECONDS)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - our own command line, and no shell
