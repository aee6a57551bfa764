"""The command `freeze`, run against the served product."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from change_freeze_cli.commands import main
from change_freeze_cli.credentials import Store
from change_freeze_cli.session import Session
from tests import factories
from tests.handlers.callers import Tenant


@dataclass(slots=True)
class WatchedSession(Session):
    """A session whose messages can be read while the command runs."""

    notes: list[str] = field(default_factory=list)

    def note(self, message: str) -> None:
        self.notes.append(message)
        Session.note(self, message)


@dataclass
class Command:
    """Runs the command with an environment of its own; what it would sleep for is in `pauses`."""

    store: Store
    environment: dict[str, str | None] = field(default_factory=dict)
    pauses: list[float] = field(default_factory=list)
    while_waiting: Callable[[list[str]], object] = field(default=lambda _: None)

    def __call__(self, *arguments: str, answer: str = "", **changes: str | None) -> Result:
        def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            self.while_waiting(session.notes)

        session = WatchedSession(sleep=sleep, store=self.store)
        environment = {"FREEZE_URL": None, "FREEZE_KEY": None, **self.environment, **changes}
        return CliRunner().invoke(main, arguments, input=answer, env=environment, obj=session)

    def json(self, *arguments: str) -> Any:
        """Return the object that a successful run prints."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


def command_of(acme: Tenant, served: str, directory: Path) -> Command:
    """Return the command with a key of the organisation; it keeps its credentials in the directory."""
    key = factories.api_key(acme.session, acme.organization).secret
    return Command(Store(directory / "config"), {"FREEZE_URL": served, "FREEZE_KEY": key})
