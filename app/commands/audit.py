"""`python -m app audit verify`: prove that no audit entry was changed, removed or left out.

It prints a line for each organisation: that its chain is valid, or the first error.
"""

import argparse
import re
from collections.abc import Sequence

from app.commands.command_line import NoWakeups, parser_of, run_with_config, say
from app.config import Config
from app.database import WORKER_ROLE, make_engine
from services.audit.verification import KnownSeal, Verification, chained_organizations, verify
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory

_EPILOG = """\
Each entry has a seal: a number, and the hash of the entry and of the previous seal. All hashes are computed again, in a
read-only transaction. Possible errors: an entry or a seal is missing, a seal is broken (the entry was changed, or
another one was inserted), or an entry older than a minute has no seal (the sweeper does not run, or the entry was
hidden from it).

The owner of the database can remove the newest entries with their seals, which leaves a valid chain. To detect that,
store the number and the hash that this command prints in another place, and pass them next time (--known).

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if there is an error, and
with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("audit", "Verify the audit log.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("verify", help="prove the chain of one organisation, or of all")
    command.add_argument("organization", nargs="?", help="the organisation's id (org_...) or its slug (default: all)")
    command.add_argument(
        "--known",
        type=_known,
        metavar="SEQUENCE:HASH",
        help="a seal of this organisation that was printed before and must still exist",
    )
    arguments = parser.parse_args(given)
    if arguments.known is not None and arguments.organization is None:
        parser.error("--known requires the organisation of the seal")
    return arguments


def _known(text: str) -> KnownSeal:
    """Return a seal written as SEQUENCE:HASH. Raise ArgumentTypeError if it is not one."""
    found = re.fullmatch(r"([1-9]\d{0,17}):([0-9a-fA-F]{64})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError("must be a number, a colon and 64 hexadecimal digits")
    return KnownSeal(int(found[1]), bytes.fromhex(found[2]))


def run(given: argparse.Namespace, config: Config) -> int:
    """Verify the chains and return the exit status. Raise OperationalError."""
    engine = make_engine(config.database_url, 1, role=WORKER_ROLE, patience=None)  # verifying has no timeout
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups())
    try:
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            organizations = chained_organizations(uow, given.organization)
        if given.organization is not None and not organizations:
            say(f"There is no organisation {given.organization!r}: name it by its id, org_..., or its slug.")
            return 1
        errors = 0
        for organization_id, slug in organizations:
            with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
                result = verify(uow, organization_id, slug, given.known)
            errors += len(result.errors)
            _report(result)
        return 1 if errors else 0
    finally:
        engine.dispose()


def _report(result: Verification) -> None:
    place = f"{result.slug} ({result.organization_id})"
    if not result.errors:
        last = f", the last one {result.head.hex()}" if result.sealed else ""
        print(f"{place}: valid, {result.sealed} sealed{last}")
    for error in result.errors:
        print(f"{place}: {error.kind.upper()}: {error.message} ({result.sealed} before it are valid)")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    given = read_arguments(arguments)
    return run_with_config(lambda config: run(given, config))
