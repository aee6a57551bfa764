"""The worker process: `python -m app.worker`. Runs wake-ups from RQ; start as many as there are cores to spare.

One queue per worker, since RQ can lose a job between two (a worker killed between taking and starting it); jobs run
in the worker's own process, so that tokens and connections are kept; nothing is retried by RQ, because PostgreSQL
knows what is due and the sweeper wakes us again.
"""

import logging
import sys

from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

from app import logs
from app.config import ConfigurationError, load_config
from app.wiring import job_context
from integrations.wakeups import QUEUE, connect
from jobs import context

logger = logging.getLogger(__name__)

SOCKET_SECONDS = 15.0
HEARTBEAT_SECONDS = 30


class WakeupWorker(SimpleWorker):
    """RQ's worker, noticing within seconds what a killed one has left behind."""

    def __init__(self, queues: list[Queue]) -> None:
        super().__init__(
            queues,
            connection=queues[0].connection,
            serializer=JSONSerializer,
            worker_ttl=HEARTBEAT_SECONDS,
            maintenance_interval=HEARTBEAT_SECONDS,
            log_job_description=False,
        )


def main() -> int:
    """Run until SIGTERM or SIGINT, finishing the job in hand."""
    try:
        config = load_config()
        context.give(job_context(config))
    except (ConfigurationError, ValueError) as error:
        sys.stderr.write(f"The worker cannot start.\n{error}\n")
        return 3
    logs.configure(config.log_level)
    queue = Queue(QUEUE, connection=connect(config.redis_url, timeout=SOCKET_SECONDS), serializer=JSONSerializer)
    logging.getLogger("rq").setLevel(max(logging.WARNING, logging.getLevelName(config.log_level)))
    WakeupWorker([queue]).work(with_scheduler=False, logging_level=None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
