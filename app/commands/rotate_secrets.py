"""`python -m app rotate-secrets`: encrypt what is stored under SECRET_KEY_PREVIOUS under SECRET_KEY."""

from collections.abc import Sequence

from app.commands.command_line import parser_of, run_with_config, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import WORKER_ROLE
from rules.errors import ServiceError
from services.maintenance import secret_rotation

_EPILOG = """\
Run it when every process has the new SECRET_KEY, with the same environment. It works in small transactions while the
service runs, and can be repeated. `python -m app doctor` then says whether SECRET_KEY_PREVIOUS is still needed.
It ends with 1 if something can be read with neither key, and with 3 if the configuration or the database is not
usable."""


def run(config: Config) -> int:
    """Encrypt everything under the new key and return the exit status. Raise ServiceError or OperationalError."""
    if config.secret_key_previous is None:
        raise ServiceError("invalid_state", "SECRET_KEY_PREVIOUS is not set: there is no key to replace.")
    with units_of_work(config, WORKER_ROLE) as uow_factory:
        found = secret_rotation.rotate(uow_factory)
    for count in found:
        print(f"{count.column.name}: {count.previous} encrypted again, {count.current} had the new key")
        if count.unreadable:
            say(f"{count.column.name}: {count.unreadable} can be read with neither key")
    return int(any(count.unreadable for count in found))


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser_of("rotate-secrets", "Encrypt what is stored under the new SECRET_KEY.", _EPILOG).parse_args(arguments)
    return run_with_config(run)
