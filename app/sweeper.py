"""The sweeper process: `python -m app sweeper`. One is needed; two survive the loss of a machine."""

import logging
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Event

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, load_config
from app.database import WORKER_ROLE
from app.gc_tuning import freeze_gc
from app.metrics.processes import serve_sweeper_metrics
from app.metrics.sweeper_counters import SweeperCounters
from app.stop_signals import STOP_SIGNALS, end_when_asked
from app.telemetry import telemetry
from app.wiring import await_database, job_context, lock_of, report_restore, take_lock
from integrations.wakeups import WakeupWatch
from jobs.context import Context, set_context
from jobs.sweep import Sweeper
from services.core.lease_holder import PooledConnectionError, runs
from services.core.unit_of_work import SYSTEM_CALLER

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT."""
    parser_of("sweeper", "Find due work and do it if no worker does, until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        logs.configure(config.log_level)
        logs.announce_start("sweeper")
        lock = lock_of(config, "sweeper")
        context = replace(job_context(config, lock), observer=SweeperCounters())
        watch = WakeupWatch(config.redis_url)
        serve_sweeper_metrics(config, context, watch.count_waiting)
        end_when_asked()
        await_database(config.database_url, WORKER_ROLE)
        stop = Event()
        for stop_signal in STOP_SIGNALS:
            signal.signal(stop_signal, lambda *_: stop.set())
        heartbeat = take_lock(lock)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        logs.report_failed_start("sweeper", error)
        return 3
    if config.smtp_url is None:
        logger.warning("SMTP_URL is not set: mails are queued and not sent")
    report_restore(context.uow_factory, config)
    set_context(context)
    freeze_gc()
    context.watch.start()
    sweeper = Sweeper(
        context, partial(_workers_available, context, watch), config.full_pass_every, config.synchronous_standbys
    )
    with telemetry(config, "sweeper"):
        sweeper.run(stop, config.sweep_every.total_seconds())
    heartbeat.stop()
    return 0


def _workers_available(context: Context, watch: WakeupWatch) -> bool:
    """True if a worker runs and takes the wake-ups."""
    with context.uow_factory.open(SYSTEM_CALLER) as uow:
        return runs(uow.session, "worker") and watch.workers_available()
