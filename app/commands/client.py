"""`python -m app client`: block a client that people have connected with OAuth, and show which are blocked."""

import argparse
from collections.abc import Sequence

from app.commands.command_line import main_of, operator_name, parser_of, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import IDENTITY_ROLE
from rules.access.client_documents import MAX_CLIENT_ID_LENGTH
from rules.time.instants import format_instant
from services.core.unit_of_work import SYSTEM_CALLER
from services.identity.oauth.blocking import ClientSummary, block, list_clients, unblock

_EPILOG = """\
A client is named by its id, as the page /connections and the audit log show it: the address of its metadata document,
or of a device the name that it gives itself. A blocked client cannot be connected and gets no tokens. Those that it has
are refused from the next request on, and when the command ends, nothing that it had begun is still being written. All
of its connections end: the audit logs of their organisations get an entry, connection.revoked, with the operator and
the reason. Unblocking lets people connect it again; connections that have ended stay so.

  python -m app client https://client.example/metadata.json --block --by grace@example.com --reason "Its keys leaked"
  python -m app client https://client.example/metadata.json --unblock
  python -m app client https://client.example/metadata.json      show its state
  python -m app client                                           show all blocked clients

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if the change is rejected,
and with 3 if the configuration or the database is not usable. If it is interrupted, run it again."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("client", "Block a client that people have connected with OAuth, or show it.", _EPILOG)
    parser.add_argument("client_id", nargs="?", type=_client_id, help="the client's id (default: show all blocked)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--block", action="store_true", help="block the client, and end its connections")
    what.add_argument("--unblock", action="store_true", help="let people connect the client again")
    parser.add_argument("--by", type=operator_name, metavar="OPERATOR", help="your name, for the audit logs")
    parser.add_argument(
        "--reason", type=str.strip, help="the reason, at least 8 characters; the organisations can read it"
    )
    arguments = parser.parse_args(given)
    if (arguments.block or arguments.unblock) and arguments.client_id is None:
        parser.error("--block and --unblock require a client")
    if not arguments.block == (arguments.by is not None) == (arguments.reason is not None):
        parser.error("--block requires --by and --reason, and nothing else takes them")
    return arguments


def _client_id(text: str) -> str:
    """Return the id of a client. Raise ArgumentTypeError if none can have it."""
    if not text.strip() or not text.isprintable() or len(text) > MAX_CLIENT_ID_LENGTH:
        raise argparse.ArgumentTypeError(f"must have 1 to {MAX_CLIENT_ID_LENGTH} printable characters")
    return text


def run(given: argparse.Namespace, config: Config) -> int:
    """Block, unblock or show clients and return 0. Raise ServiceError or OperationalError."""
    with units_of_work(config, IDENTITY_ROLE) as uow_factory:
        if given.block:
            blocked, ended = block(uow_factory, given.client_id, by=given.by, reason=given.reason)
            say(f"{_as_text(blocked)} {ended} connection{'' if ended == 1 else 's'} ended.")
        elif given.unblock:
            with uow_factory.open(SYSTEM_CALLER) as uow:
                say(_as_text(unblock(uow, given.client_id)))
        else:
            with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
                for each in list_clients(uow, given.client_id):
                    print(_as_text(each))
        return 0


def _as_text(client: ClientSummary) -> str:
    name = f" ({client.name!r})" if client.name else ""
    if client.blocked_at is not None:
        return f"{client.client_id}{name} is blocked since {format_instant(client.blocked_at)}."
    return f"{client.client_id}{name} is not blocked. Open connections: {client.connections}."


main = main_of(read_arguments, run)
