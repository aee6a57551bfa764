"""`python -m app backup-check`: verify that a database is complete, such as one that was restored from a backup.

It prints a line for each check, and writes nothing into the database.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlalchemy.exc
from sqlalchemy import text

from app.commands.audit import known_seal
from app.commands.command_line import first_line, main_of, parser_of
from app.commands.doctor import Finding, check_schema, fix, ok
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import WORKER_ROLE
from rules.time.instants import format_instant
from services.audit.verification import KnownSeal, chained_organizations, verify
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.identity.signing_keys import is_secret_key_known

_EPILOG = """\
Set DATABASE_URL to the restored database, with the SECRET_KEY that it was used with. Checked are the roles and their
rights, the schema, row-level security, sequences, the secret key, and the chain of every audit log.

A backup that lacks the newest changes is complete in itself. To detect that, write the last seal of each audit log
beside the backup, before it is made, and pass the file when it is restored:

  python -m app backup-check --write seals.json      before the backup, on the database that is backed up
  python -m app backup-check --against seals.json    on the restored one

It ends with 1 if something is to be fixed, and with 3 if the configuration or the database is not usable."""
_UNPROTECTED = text("""
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attname = 'organization_id'
      AND c.relname <> 'sessions'
      AND NOT (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid))
    ORDER BY 1
""")
_EVALUATIONS = text(
    "SELECT coalesce(pg_sequence_last_value('evaluations'), 0), coalesce(max(evaluation), 0) FROM head_checks"
)
_CONTENT = text("""
    SELECT (SELECT count(*) FROM organizations WHERE purged_at IS NULL) AS organizations,
           (SELECT count(*) FROM freezes WHERE ended_at IS NULL) AS freezes,
           (SELECT count(*) FROM audit_entries) AS entries, (SELECT max(at) FROM audit_entries) AS newest
""")


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("backup-check", "Verify that a restored database is complete.", _EPILOG)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", type=Path, metavar="FILE", help="write the last seal of each audit log")
    what.add_argument("--against", type=_seals, metavar="FILE", default={}, help="seals that the database must have")
    return parser.parse_args(given)


def _seals(path: str) -> dict[str, KnownSeal]:
    """Return the seals of a file, by organisation. Raise ArgumentTypeError if it was not written by `--write`."""
    try:
        return {organization: known_seal(seal) for organization, seal in json.loads(Path(path).read_bytes()).items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error}") from None


def run(given: argparse.Namespace, config: Config) -> int:
    """Check the database and return the exit status. Raise OperationalError."""
    seals: dict[str, str] = {}
    to_fix = 0
    with units_of_work(config, WORKER_ROLE, answer_timeout=None) as uow_factory:  # verifying has no timeout
        for finding in _check(config, uow_factory, given.against, seals):
            print(f"{finding.state:<4} {finding.text}")
            sys.stdout.flush()
            to_fix += finding.state == "fix"
    if given.write is not None and not to_fix:
        given.write.write_text(json.dumps(seals, indent=2) + "\n")
        print(f"ok   the seals were written to {given.write}")
    return int(to_fix > 0)


def _check(
    config: Config, uow_factory: UnitOfWorkFactory, known: dict[str, KnownSeal], seals: dict[str, str]
) -> Iterator[Finding]:
    """Check everything, and add the last seal of each organisation to `seals`."""
    schema = check_schema(config)
    yield schema
    if schema.state != "ok":
        return
    try:
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            yield from _check_parts(uow)
            content = uow.session.execute(_CONTENT).one()
            organizations = chained_organizations(uow, None)
    except sqlalchemy.exc.ProgrammingError as error:
        yield fix(f"rights are missing ({first_line(error.orig)}): restore without --no-privileges")
        return
    newest = f", the newest of {format_instant(content.newest)}" if content.newest else ""
    yield ok(
        f"{content.organizations} organisations, {content.freezes} freezes that have not ended, "
        f"{content.entries} audit entries{newest}"
    )
    missing = sorted(known.keys() - {organization_id for organization_id, _ in organizations})
    if missing:
        yield fix(f"organisations are missing: {', '.join(missing)}")
    for organization_id, slug in organizations:
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            result = verify(uow, organization_id, slug, known.get(organization_id))
        for problem in result.errors:
            yield fix(f"the audit log of {slug} ({organization_id}) is not whole: {problem.message}")
        if not result.errors:
            yield ok(f"the audit log of {slug} ({organization_id}) is whole: {result.sealed} seals")
        if result.sealed:
            seals[organization_id] = f"{result.sealed}:{result.head.hex()}"


def _check_parts(uow: UnitOfWork) -> Iterator[Finding]:
    """Check what a partial restore leaves out: row-level security, positions of sequences, and the secret key."""
    unprotected = uow.session.scalars(_UNPROTECTED).all()
    if unprotected:
        yield fix(f"no row-level security on {', '.join(unprotected)}: restore the schema from the backup too")
    else:
        yield ok("every table with rows of organisations has row-level security")
    last, used = uow.session.execute(_EVALUATIONS).one()
    if last < used:
        yield fix(f"the sequence evaluations is at {last}, and {used} was used: restore sequences from the backup too")
    else:
        yield ok("sequences go on after what was used")
    if is_secret_key_known(uow):
        yield ok("SECRET_KEY decrypts what is stored")
    else:
        yield fix("SECRET_KEY is not the one that the database was used with")


main = main_of(read_arguments, run)
