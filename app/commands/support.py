"""`python -m app support`: a read-only session in an organisation, limited in time.

The session token is printed to standard output, everything else to standard error.
"""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from app.commands.command_line import main_of, operator_name, parser_of, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import IDENTITY_ROLE
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.identity import support

MAX_MINUTES = 480
_EPILOG = """\
The session can read everything in the organisation and write nothing. The organisation's audit log gets an entry,
support.session_started, with the operator, the reason and the expiry.

  export TOKEN=$(python -m app support acme --by grace@example.com --reason "Ticket 4711: a freeze that stays")
  curl -H "Authorization: Bearer $TOKEN" "$BASE_URL/v1/freezes?state=in_force"
  python -m app support acme --by grace@example.com --end

Run it where the service runs, with the same environment (DATABASE_URL, BASE_URL, WEB_URL, ...). It ends with 1 if
the session is rejected, and with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("support", "Start a support session: read-only access to one organisation.", _EPILOG)
    parser.add_argument("organization", help="the organisation's id (org_...) or its slug")
    parser.add_argument(
        "--by", required=True, type=operator_name, metavar="OPERATOR", help="your name, for the audit log"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--reason", type=str.strip, help="the reason, at least 8 characters; the organisation can read it"
    )
    what.add_argument("--end", action="store_true", help="end the organisation's open support sessions instead")
    parser.add_argument(
        "--minutes", type=_minutes, default=60, help=f"the duration, 1 to {MAX_MINUTES} minutes (default: 60)"
    )
    return parser.parse_args(given)


def _minutes(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MAX_MINUTES:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MAX_MINUTES}")
    return int(text)


def run(given: argparse.Namespace, config: Config) -> int:
    """Start or end sessions and return 0. Raise ServiceError or OperationalError."""
    with units_of_work(config, IDENTITY_ROLE) as uow_factory:
        if given.end:
            _end_sessions(uow_factory, given)
        else:
            _start_session(uow_factory, given)
        return 0


def _start_session(uow_factory: UnitOfWorkFactory, given: argparse.Namespace) -> None:
    lifetime = timedelta(minutes=given.minutes)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        session = support.start(uow, given.organization, by=given.by, reason=given.reason, lifetime=lifetime)
    organization = f"{session.organization.name} ({session.organization.id})"
    say(f"{session.session_id}: {given.by} may read {organization} until {session.expires_at:%Y-%m-%d %H:%M:%S} UTC.")
    print(session.token)


def _end_sessions(uow_factory: UnitOfWorkFactory, given: argparse.Namespace) -> None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        ended = support.end_all(uow, given.organization, by=given.by)
    say(f"{ended} open support session{'' if ended == 1 else 's'} ended.")


main = main_of(read_arguments, run)
