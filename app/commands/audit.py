"""`python -m app audit`: prove that no audit entry was changed, removed or left out; take old ones out of the database.

`verify` prints a line for each organisation: that its chain is valid, or the first error.
"""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

import orjson
import psycopg
import sqlalchemy.exc
from sqlalchemy import NullPool, create_engine, make_url

from app.commands.command_line import first_line, main_of, operator_name, parser_of, say
from app.commands.units_of_work import NoWakeups, units_of_work
from app.config import Config
from app.database import WORKER_ROLE
from services.audit.archive import Archive, ArchiveError, read_archive, write_archive
from services.audit.removal import remove_archived
from services.audit.verification import KnownSeal, Verification, chained_organizations, verify
from services.core.clock import DatabaseClock
from services.core.transactions import set_in_every_transaction
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.identity.support import find_organization

_EPILOG = """\
Each entry has a seal: a number, and the hash of the entry and of the previous seal. All hashes are computed again, in a
read-only transaction. Possible errors: an entry or a seal is missing, a seal is broken (the entry was changed, or
another one was inserted), or an entry older than a minute has no seal (no worker runs, or the entry was
hidden from it).

The owner of the database can remove the newest entries with their seals, which leaves a valid chain. To detect that,
store the number and the hash that this command prints in another place, and pass them next time (--known).

Entries that are older than any plan shows leave the database in two steps, for each organisation:
  python -m app audit export acme acme-2027.jsonl
  python -m app audit remove acme-2027.jsonl --by grace@example.com
The export writes a file whose chain can be verified without the database. The removal verifies it again, with the chain
in the database, and needs DATABASE_OWNER_URL: no other login may say that entries have left. Interrupted, it continues
with the same file. Afterwards the chain begins with the hash of the last entry that was removed.

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if there is an error, and
with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("audit", "Verify the audit log, and take old entries out of the database.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("verify", help="prove the chain of one organisation, or of all")
    command.add_argument("organization", nargs="?", help="the organisation's id (org_...) or its slug (default: all)")
    command.add_argument(
        "--known",
        type=known_seal,
        metavar="SEQUENCE:HASH",
        help="a seal of this organisation that was printed before and must still exist",
    )
    export = commands.add_parser("export", help="write the entries that are older than any plan shows to a file")
    export.add_argument("organization", help="the organisation's id (org_...) or its slug")
    export.add_argument("file", type=Path, help="the file to write, which must not exist")
    remove = commands.add_parser("remove", help="remove the entries of such a file from the database")
    remove.add_argument("file", type=Path, help="the file that the export has written")
    remove.add_argument(
        "--by", required=True, type=operator_name, metavar="OPERATOR", help="your name, for the audit log"
    )
    arguments = parser.parse_args(given)
    if arguments.command == "verify" and arguments.known is not None and arguments.organization is None:
        parser.error("--known requires the organisation of the seal")
    return arguments


def known_seal(text: str) -> KnownSeal:
    """Return a seal written as SEQUENCE:HASH. Raise ArgumentTypeError if it is not one."""
    found = re.fullmatch(r"([1-9]\d{0,17}):([0-9a-fA-F]{64})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError("must be a number, a colon and 64 hexadecimal digits")
    return KnownSeal(int(found[1]), bytes.fromhex(found[2]))


def run(given: argparse.Namespace, config: Config) -> int:
    """Run a command and return the exit status. Raise OperationalError."""
    try:
        return {"verify": _verify, "export": _export, "remove": _remove}[given.command](given, config)
    except ArchiveError as error:
        say(str(error))
    except OSError as error:
        say(f"{error.strerror}: {error.filename}" if error.filename else str(error))
    except sqlalchemy.exc.ProgrammingError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        say(f"Only the owner of the schema may remove entries: set DATABASE_OWNER_URL ({first_line(error.orig)}).")
    return 1


def _export(given: argparse.Namespace, config: Config) -> int:
    with (
        units_of_work(config, WORKER_ROLE, answer_timeout=None) as uow_factory,
        uow_factory.open(SYSTEM_CALLER, read_only=True) as uow,
    ):
        organization = find_organization(uow, given.organization)
        archive = write_archive(uow, organization.id, given.file)
    print(f"{given.file}: {_describe(archive)}")
    return 0


def _remove(given: argparse.Namespace, config: Config) -> int:
    archive = read_archive(given.file)
    engine = create_engine(
        make_url(os.environ.get("DATABASE_OWNER_URL") or config.database_url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        hide_parameters=True,
        json_deserializer=orjson.loads,
    )
    set_in_every_transaction(engine, {"role": WORKER_ROLE, "timezone": "UTC", "lock_timeout": "5s"})
    deleted = remove_archived(UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups()), archive, by=given.by)
    print(f"{deleted} entries were deleted. Keep {given.file}: {_describe(archive)}")
    return 0


def _describe(archive: Archive) -> str:
    seals = f"seals {archive.start.sequence + 1} to {archive.last.sequence} of {archive.organization_id}"
    return f"{seals}, the last one {archive.last.hash.hex()}, SHA-256 of the file {archive.digest.hex()}"


def _verify(given: argparse.Namespace, config: Config) -> int:
    with units_of_work(config, WORKER_ROLE, answer_timeout=None) as uow_factory:  # verifying has no timeout
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


def _report(result: Verification) -> None:
    place = f"{result.slug} ({result.organization_id})"
    if not result.errors:
        last = f", the last one {result.head.hex()}" if result.sealed else ""
        removed = f" ({result.removed} of them removed after an export)" if result.removed else ""
        print(f"{place}: valid, {result.sealed} sealed{removed}{last}")
    for error in result.errors:
        print(f"{place}: {error.kind.upper()}: {error.message} ({result.sealed} before it are valid)")


main = main_of(read_arguments, run)
