"""The worker process: `python -m app worker`. Runs wake-ups from RQ; start as many as there are cores to spare.

One queue per worker, since RQ can lose a job between two (a worker killed between taking and starting it); jobs run
in the worker's own process, so that tokens and connections are kept; nothing is retried by RQ, because PostgreSQL
knows what is due and the sweeper wakes us again. RQ's worker quits when Redis hangs: then the program begins anew in
the same process, so that nobody has to be told to restart it.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from threading import Event
from types import FrameType
from typing import NoReturn

import redis
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, load_config
from app.gc_tuning import freeze_gc
from app.wiring import job_context, take_lock
from integrations.wakeups import QUEUE, connect
from jobs import context
from services.core.lease_holder import PooledConnectionError

logger = logging.getLogger(__name__)

SOCKET_SECONDS = 15.0
HEARTBEAT_SECONDS = 30
RETRY_SECONDS = 1.0


class WakeupWorker(SimpleWorker):
    """RQ's worker, noticing within seconds what a killed one has left behind, and that Redis is back."""

    max_connection_wait_time = 2.0

    def __init__(self, queues: list[Queue], told_to_stop: Event) -> None:
        self._told_to_stop = told_to_stop
        super().__init__(
            queues,
            connection=queues[0].connection,
            serializer=JSONSerializer,
            worker_ttl=HEARTBEAT_SECONDS,
            maintenance_interval=HEARTBEAT_SECONDS,
            log_job_description=False,
        )

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finish the job in hand, and end."""
        self._told_to_stop.set()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT, finishing the job in hand; begins anew whenever Redis makes RQ's worker quit."""
    parser_of("worker", "Run jobs from Redis until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        made = job_context(config)
        take_lock(made)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        sys.stderr.write(f"The worker cannot start.\n{error}\n")
        return 3
    context.set_context(made)
    logs.configure(config.log_level)
    queue = Queue(QUEUE, connection=connect(config.redis_url, timeout=SOCKET_SECONDS), serializer=JSONSerializer)
    logging.getLogger("rq").setLevel(max(logging.WARNING, logging.getLevelName(config.log_level)))
    told_to_stop = Event()
    freeze_gc()
    try:
        WakeupWorker([queue], told_to_stop).work(with_scheduler=False, logging_level=None)
    except redis.RedisError as error:
        logger.warning("Redis does not answer as it should: %s", error)
    if not told_to_stop.is_set():
        _begin_anew()
    return 0


def _begin_anew() -> NoReturn:
    logger.warning("the worker begins anew in %.0f s; until then the sweeper does its work", RETRY_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    time.sleep(RETRY_SECONDS)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - our own command line, and no shell
