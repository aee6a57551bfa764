"""The sweeper process: `python -m app sweeper`. One is needed; two survive the loss of a machine."""

import logging
import signal
import sys
from collections.abc import Sequence
from threading import Event

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, load_config
from app.gc_tuning import freeze_gc
from app.wiring import job_context, take_lock
from integrations.wakeups import WakeupWatch
from jobs import context
from jobs.sweep import Sweeper
from services.core.lease_holder import PooledConnectionError

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT."""
    parser_of("sweeper", "Find due work and do it if no worker does, until SIGTERM or SIGINT.").parse_args(arguments)
    try:
        config = load_config()
        made = job_context(config)
        take_lock(made)
    except (ConfigurationError, PooledConnectionError, ValueError) as error:
        sys.stderr.write(f"The sweeper cannot start.\n{error}\n")
        return 3
    logs.configure(config.log_level)
    if config.smtp_url is None:
        logger.warning("SMTP_URL is not set: mails are queued and not sent")
    context.set_context(made)
    freeze_gc()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Sweeper(made, WakeupWatch(config.redis_url).workers_available, config.full_pass_every).run(
        stop, config.sweep_every.total_seconds()
    )
    return 0
