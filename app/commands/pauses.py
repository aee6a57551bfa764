"""`python -m app pauses`: show the installations that GitHub limits, and end a pause before its time."""

import argparse
from collections.abc import Sequence

from app.commands.command_line import main_of, operator_name, parser_of, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import WORKER_ROLE
from integrations.wakeups import RedisWakeups
from rules.time.instants import format_instant
from services.core.unit_of_work import SYSTEM_CALLER
from services.maintenance.pauses import Pause, list_pauses, resume_installation

_EPILOG = """\
When GitHub limits our requests for an installation, nothing is sent for it until the time that GitHub named, or for
some minutes. Its checks wait, and freezes that have not been written do not block. End a pause when you know that the
limit is over: for example because GitHub raised it, or because another program has stopped that used it up. The checks
that waited are due at once. If GitHub still limits us, the next call begins a new pause.

  python -m app pauses                                     show the installations that are paused
  python -m app pauses 4711 --end --by grace@example.com   end the pause of one; its audit log names you

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if the change is rejected,
and with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("pauses", "Show the installations that GitHub limits, and end a pause.", _EPILOG)
    parser.add_argument("installation", nargs="?", type=int, help="the id of an installation, as GitHub has it")
    parser.add_argument("--end", action="store_true", help="call the installation again from now on")
    parser.add_argument("--by", type=operator_name, metavar="OPERATOR", help="your name, for the audit log")
    arguments = parser.parse_args(given)
    if len({arguments.installation is not None, arguments.end, arguments.by is not None}) > 1:
        parser.error("an installation, --end and --by belong together")
    return arguments


def run(given: argparse.Namespace, config: Config) -> int:
    """End a pause, or show all, and return 0. Raise ServiceError or OperationalError."""
    with units_of_work(config, WORKER_ROLE, RedisWakeups(config.redis_url)) as uow_factory:
        if given.end:
            ended = resume_installation(uow_factory, given.installation, by=given.by)
            say(f"Ended: {_as_text(ended)}")
        else:
            with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
                for pause in list_pauses(uow):
                    print(_as_text(pause))
        return 0


def _as_text(pause: Pause) -> str:
    since = "" if pause.since is None else f" since {format_instant(pause.since)}"
    return f"{pause.installation_id} ({pause.account}) is paused{since} until {format_instant(pause.until)}."


main = main_of(read_arguments, run)
