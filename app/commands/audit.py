"""`python -m app.commands.audit verify`: prove that nothing in the audit was changed, removed or left out.

Prints a line for each organisation, and what is wrong first where something is.
"""

import argparse
import re
import sys
from collections.abc import Sequence

from app.commands.operator_cli import NoWakeups, ended, say
from app.config import Config
from app.database import WORKER_ROLE, make_engine
from rules.access.permissions import SYSTEM
from services.audit.verifying import Known, Proof, chained_organizations, verify
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory

_EPILOG = """\
Each entry has a seal: a number, and the hash of the entry and of the seal before. All hashes are computed anew, in a
transaction that only reads. What can be wrong: an entry or a seal is missing, a seal is broken (the entry was changed,
or something was put in between), or an entry older than a minute has no seal (the sweeper does not run, or the entry
was kept from it).

Somebody who owns the database can cut off the end, entries and seals, and leave a sound chain. To notice that, keep
the number and the hash that a sound chain is told with, somewhere else, and have them looked for next time (--known).

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 when something is wrong,
and with 3 when it cannot work at all."""


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the process with 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m app.commands.audit",
        description="Look after the audit.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("verify", help="prove the chain of one organisation, or of all")
    command.add_argument("organization", nargs="?", help="the organisation's id (org_...) or its slug (default: all)")
    command.add_argument(
        "--known",
        type=_known,
        metavar="SEQUENCE:HASH",
        help="a seal of this organisation that you have kept, and that has to be there still",
    )
    arguments = parser.parse_args(given)
    if arguments.known is not None and arguments.organization is None:
        parser.error("--known needs the organisation that the seal belongs to")
    return arguments


def _known(text: str) -> Known:
    """Read a seal as the API tells it; raises ArgumentTypeError for what cannot be one."""
    found = re.fullmatch(r"([1-9]\d{0,17}):([0-9a-fA-F]{64})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError("has to be a number, a colon and 64 hexadecimal digits")
    return Known(int(found[1]), bytes.fromhex(found[2]))


def run(given: argparse.Namespace, config: Config) -> int:
    """Verify what the command line names; returns the exit status. Raises OperationalError."""
    engine = make_engine(config.database_url, 1, role=WORKER_ROLE)
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups())
    caller = Caller(None, SYSTEM, "system")
    try:
        with uow_factory.open(caller, read_only=True) as uow:
            named = chained_organizations(uow, given.organization)
        if given.organization is not None and not named:
            say(f"There is no organisation {given.organization!r}: name it by its id, org_..., or its slug.")
            return 1
        faults = 0
        for organization_id, slug in named:
            with uow_factory.open(caller, read_only=True) as uow:
                proof = verify(uow, organization_id, slug, given.known)
            faults += len(proof.faults)
            _report(proof)
        return 1 if faults else 0
    finally:
        engine.dispose()


def _report(proof: Proof) -> None:
    place = f"{proof.slug} ({proof.organization_id})"
    if not proof.faults:
        last = f", the last one {proof.head.hex()}" if proof.sealed else ""
        print(f"{place}: sound, {proof.sealed} sealed{last}")
    for fault in proof.faults:
        print(f"{place}: {fault.kind.upper()}: {fault.message} ({proof.sealed} before it are sound)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = read_arguments(arguments)
    return ended(lambda config: run(given, config))


if __name__ == "__main__":
    sys.exit(main())
