"""`python -m app.commands.support`: look at an organisation as its people see it, for a while, changing nothing.

Prints a session token on standard output, and what it is on standard error.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import timedelta

from app.commands.operator_cli import NoWakeups, ended, operator_name, say
from app.config import Config
from app.database import IDENTITY_ROLE, make_engine
from app.wiring import dependencies_of
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.identity import support

LONGEST_MINUTES = 480
_COMMAND = Caller(None, SYSTEM, "system")
_EPILOG = """\
The session reads everything in the organisation and can write nothing. Its audit log gets an entry,
support.session_started, with the operator, the reason and the end.

  export TOKEN=$(python -m app.commands.support acme --by grace@example.com --reason "Ticket 4711: a freeze that stays")
  curl -H "Authorization: Bearer $TOKEN" "$BASE_URL/v1/freezes?state=in_force"
  python -m app.commands.support acme --by grace@example.com --end

Run it where the service runs, with the same environment (DATABASE_URL, BASE_URL, WEB_URL, ...). It ends with 1 when it
is refused, and with 3 when it cannot work at all."""


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the process with 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m app.commands.support",
        description="Start a support session: a read-only look at one organisation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("organization", help="the organisation's id (org_...) or its slug")
    parser.add_argument(
        "--by", required=True, type=operator_name, metavar="OPERATOR", help="who looks, as the audit names them"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--reason", type=str.strip, help="why, in at least 8 characters; the organisation can read it")
    what.add_argument(
        "--end", action="store_true", help="end the organisation's open support sessions instead, at once"
    )
    parser.add_argument(
        "--minutes", type=_minutes, default=60, help=f"how long, 1 to {LONGEST_MINUTES} minutes (default: 60)"
    )
    return parser.parse_args(given)


def _minutes(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= LONGEST_MINUTES:
        raise argparse.ArgumentTypeError(f"has to be a whole number from 1 to {LONGEST_MINUTES}")
    return int(text)


def run(given: argparse.Namespace, config: Config) -> int:
    """Do what the command line says, and return 0; raises ServiceError, OperationalError."""
    engine = make_engine(config.database_url, 1, role=IDENTITY_ROLE)
    try:
        uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups(), dependencies_of(config))
        if given.end:
            _end(uow_factory, given)
        else:
            _begin(uow_factory, given)
        return 0
    finally:
        engine.dispose()


def _begin(uow_factory: UnitOfWorkFactory, given: argparse.Namespace) -> None:
    lifetime = timedelta(minutes=given.minutes)
    with uow_factory.open(_COMMAND) as uow:
        begun = support.begin(uow, given.organization, by=given.by, reason=given.reason, lifetime=lifetime)
    whose = f"{begun.organization.name} ({begun.organization.id})"
    say(f"{begun.session_id}: {given.by} may read {whose} until {begun.expires_at:%Y-%m-%d %H:%M:%S} UTC.")
    print(begun.token)


def _end(uow_factory: UnitOfWorkFactory, given: argparse.Namespace) -> None:
    with uow_factory.open(_COMMAND) as uow:
        ended = support.end_all(uow, given.organization, by=given.by)
    say(f"{ended} open support session{'' if ended == 1 else 's'} ended.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = read_arguments(arguments)
    return ended(lambda config: run(given, config))


if __name__ == "__main__":
    sys.exit(main())
