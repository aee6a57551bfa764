"""The command `python -m app sweeper`, which stays for one release: workers do what it does, under the same leases."""

import logging
import signal
from collections.abc import Sequence
from threading import Event

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, load_config
from app.database import WORKER_ROLE
from app.gc_tuning import freeze_gc
from app.metrics.processes import serve_metrics
from app.stop_signals import STOP_SIGNALS, end_when_asked
from app.telemetry import telemetry
from app.wiring import await_database, job_context, lock_of, make_sweeper, report_restore, take_lock
from integrations.wakeups import WakeupWatch
from jobs.context import set_context
from services.core.lease_holder import PooledConnectionError

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT."""
    parser_of("sweeper", "Run the tasks of the sweep, as workers do, until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        logs.configure(config.log_level)
        logs.announce_start("sweeper")
        logger.warning("workers sweep now: `python -m app sweeper` is not needed, and the next release has none")
        lock = lock_of(config, "sweeper")
        context = job_context(config, lock)
        watch = WakeupWatch(config.redis_url)
        serve_metrics(config, context, watch.count_waiting)
        end_when_asked()
        await_database(config.database_url, WORKER_ROLE)
        stop = Event()
        for stop_signal in STOP_SIGNALS:
            signal.signal(stop_signal, lambda *_: stop.set())
        heartbeat = take_lock(lock)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        logs.report_failed_start("sweeper", error)
        return 3
    report_restore(context.uow_factory, config)
    set_context(context)
    freeze_gc()
    context.watch.start()
    with telemetry(config, "sweeper"):
        make_sweeper(config, context, watch).run(stop, config.sweep_every.total_seconds())
    heartbeat.stop()
    return 0
