"""The worker process, `python -m app worker`: runs jobs when RQ delivers their wake-ups, and sweeps.

Each worker reads one queue, because RQ can lose a job that it moves between two. Jobs run in the worker's own process,
which keeps tokens and connections. RQ retries nothing: PostgreSQL records what is due, and the sweep sends new
wake-ups. RQ's worker exits when Redis hangs; a new one then takes its place, while the sweep goes on beside it.
"""

import logging
import signal
import time
from collections.abc import Sequence
from threading import Event, Thread
from types import FrameType
from typing import Any

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
from app.stop_signals import STOP_SIGNALS, end_when_asked
from app.telemetry import telemetry
from app.wiring import await_database, job_context, lock_of, make_sweeper, report_restore, take_lock
from integrations.traces import continued
from integrations.wakeups import QUEUE, WakeupWatch, connect
from jobs.context import set_context
from jobs.loop_watch import MAX_SECONDS_OF_SLOW, LoopWatch
from services.core.lease_holder import PooledConnectionError

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 15.0
"""For a connection to Redis; RQ sets a longer one for answers, since it waits in one call for a wake-up."""
HEARTBEAT_SECONDS = 30
"""Lifetime of the key by which RQ knows that the worker is alive, and interval of its own clean-up."""
RETRY_SECONDS = 1.0
"""After which a worker whose Redis failed tries again."""


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

    def subscribe(self) -> None:
        """Take no commands from Redis: the thread for them would outlive this object where Redis fails."""

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
    """Run until SIGTERM or SIGINT, finishing the current job and task."""
    parser_of("worker", "Run jobs from Redis, and sweep, until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        logs.configure(config.log_level)
        logs.announce_start("worker")
        lock = lock_of(config)
        context = job_context(config, lock)
        watch = WakeupWatch(config.redis_url)
        begun = Event()
        serve_metrics(config, context, watch.count_waiting, begun.is_set)
        end_when_asked()
        await_database(config.database_url, WORKER_ROLE)
        heartbeat = take_lock(lock)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        logs.report_failed_start("worker", error)
        return 3
    if config.smtp_url is None:
        logger.warning("SMTP_URL is not set: mails are queued and not sent")
    report_restore(context.uow_factory, config)
    set_context(context)
    leave_out_lines_of_rq(config.log_level)
    stop = Event()
    freeze_gc()
    context.watch.start()
    sweeping = Thread(
        target=make_sweeper(config, context, watch).run, args=(stop, config.sweep_every.total_seconds()), name="sweep"
    )
    with telemetry(config, "worker"):
        _stop_when_asked(stop)
        sweeping.start()
        begun.set()
        _take_wakeups(config.redis_url, stop, context.watch)
        sweeping.join()
    heartbeat.stop()
    return 0


def leave_out_lines_of_rq(log_level: str) -> None:
    """Have RQ write what is wrong, and its steps only at `DEBUG`: a job has one line of ours."""
    for name in ("rq", "rq.worker"):  # RQ itself sets the level of the second
        logging.getLogger(name).setLevel(logging.DEBUG if log_level == "DEBUG" else logging.WARNING)


def _take_wakeups(redis_url: str, stop: Event, watch: LoopWatch) -> None:
    """Run the jobs that wake-ups name until `stop` is set, by a signal for one; begin again when Redis fails."""
    queue = Queue(QUEUE, connection=connect(redis_url, timeout=CONNECT_TIMEOUT_SECONDS), serializer=JSONSerializer)
    try:
        while not stop.is_set():
            try:
                with watch.working(MAX_SECONDS_OF_SLOW):
                    WakeupWorker([queue], stop, watch).work(with_scheduler=False, logging_level=None)
            except redis.RedisError as error:
                logger.warning("the connection to Redis failed: %s", error)
            _stop_when_asked(stop)
            stop.wait(RETRY_SECONDS)
    except SystemExit:
        stop.set()  # by a signal
    end_when_asked()


def _stop_when_asked(stop: Event) -> None:
    """Set the event on a signal, until the next `WakeupWorker` has handlers of its own."""
    for stop_signal in STOP_SIGNALS:
        signal.signal(stop_signal, lambda *_: stop.set())
