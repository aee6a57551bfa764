"""`python -m app restore show|confirm|declare`: what an operator does after the database was restored from a backup."""

import argparse
from collections.abc import Sequence

from app.commands.command_line import main_of, operator_name, parser_of, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import WORKER_ROLE
from integrations.github import GitHub
from integrations.wakeups import RedisWakeups
from rules.errors import ServiceError
from rules.time.instants import format_instant
from services.core.database_identity import IdentityState, read_identity
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.restores.preview import BlockedHead, preview_release
from services.restores.restores import confirm_restore, declare_restored, notice_restore, record_shown

_EPILOG = """\
The service notices by itself that its database was restored: it runs in another cluster, as another database, with
tables that were made again, or on another timeline of the write-ahead log. Until you confirm that, GitHub may show
freezes that the database does not have any more. So nothing is released: no check becomes green and no rule is changed,
also after freezes are lifted. New freezes block at once.

  python -m app restore show                              list the heads that confirming would release
  python -m app restore confirm --by grace@example.com    release them; within an hour after `show`
  python -m app restore declare                           treat the database as restored, after a copy of its disk was
                                                          put back, which nothing in the database shows

Start the freezes that are missing before you confirm. Run it where the service runs, with the same environment
(DATABASE_URL, GITHUB_APP_ID, ...). It ends with 1 if it is rejected or not everything could be read at GitHub, and with
3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("restore", "Show and confirm what a restored database would release.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show", help="list the heads that confirming would release")
    confirm = commands.add_parser("confirm", help="release what the database says from now on")
    confirm.add_argument(
        "--by", type=operator_name, metavar="OPERATOR", required=True, help="your name, for the audit logs"
    )
    commands.add_parser("declare", help="treat the database as restored")
    return parser.parse_args(given)


def run(given: argparse.Namespace, config: Config) -> int:
    """Run the command and return its exit status. Raise ServiceError or OperationalError."""
    wakeups = None if given.command == "show" else RedisWakeups(config.redis_url)
    with units_of_work(config, WORKER_ROLE, wakeups, connections=2) as uow_factory:
        if given.command == "declare":
            with uow_factory.open(SYSTEM_CALLER) as uow:
                declare_restored(uow)
            say("The database counts as restored. Next: python -m app restore show")
        elif given.command == "confirm":
            confirm_restore(uow_factory, by=given.by)
            say("Confirmed. The workers read all checks at GitHub again, and release what the database allows.")
        else:
            return _show(uow_factory, config)
        return 0


def _show(uow_factory: UnitOfWorkFactory, config: Config) -> int:
    if not notice_restore(uow_factory, synchronous_standbys=config.synchronous_standbys):
        print("There is no restore to confirm: the database runs where it last ran.")
        return 0
    with uow_factory.open(SYSTEM_CALLER) as uow:
        state = read_identity(uow.session)
    print(_describe(state))
    github = uow_factory.ports.find(GitHub)
    if github is None:
        raise ServiceError("github_unavailable", "No GitHub App is configured here (GITHUB_APP_ID).")
    found = preview_release(uow_factory, github)
    for head in found.heads:
        print(_line(head))
    for problem in found.unreadable:
        print(f"NOT READ: {problem}")
    with uow_factory.open(SYSTEM_CALLER) as uow:
        record_shown(uow)
    count = len(found.heads)
    say(
        f"Confirming releases {count} check{'' if count == 1 else 's'}. Start the freezes that are missing first: they "
        "block at once. Then: python -m app restore confirm --by <you>"
    )
    return 1 if found.unreadable else 0


def _describe(state: IdentityState) -> str:
    noticed = format_instant(state.noticed_at) if state.noticed_at else "now"
    return (
        f"The database was restored, noticed {noticed}: {state.difference}. The service last ran on it at "
        f"{format_instant(state.seen_at)}; what was changed later is missing."
    )


def _line(head: BlockedHead) -> str:
    what = ", ".join(head.pulls) or "a commit of a merge queue"
    shown = f"says {head.shown}" if head.shown else "is missing"
    into = ", ".join(head.branches)
    return f"{head.organization}: {what} at {head.sha[:12]} into {into}: {head.check_name} {shown} and becomes success"


main = main_of(read_arguments, run)
