"""The simulated Slack as one object."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tools.fake_slack import oauth, people, persistence
from tools.fake_slack.core import Core
from tools.fake_slack.model import Form, Json, Message
from tools.fake_slack.sender import Reply


class FakeSlack(Core):
    """A simulated Slack: workspaces, the app's tokens, messages and forms, people, faults and counters.

    If the file `state` exists, everything is read from it; `save` writes it. `tools.fake_slack.serve` serves it over
    HTTP. `clock` returns the seconds since the epoch.
    """

    def __init__(
        self, *, request_url: str | None = None, state: Path | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(clock)
        self.state = state
        if state:
            persistence.load(self, state)
        self.settings.request_url = request_url or self.settings.request_url
        self._saved = self.changes

    def reset(self) -> None:
        """Begin again, with the settings as they are."""
        with self.lock:
            self.clear()
            self.faults.clear()
            self.calls.reset()

    def save(self) -> None:
        """Write the state file, if there is one and something changed."""
        if self.state and self._saved != self.changes:
            changes = self.changes
            persistence.save(self, self.state)
            self._saved = changes

    def install(self, authorize_url: str, user: str = "U0ADA", *, everywhere: bool = False) -> dict[str, str]:
        """Consent to an installation as a person, and return the query that they are led back with."""
        query = dict(parse_qsl(urlsplit(authorize_url).query))
        with self.lock:
            refused = oauth.refuse(self, query)
            if refused:
                raise ValueError(refused)
            team = oauth.EVERYWHERE if everywhere else self.team_of(user)
            return dict(parse_qsl(urlsplit(oauth.consent(self, query, team, user)).query))

    def type(self, text: str, user: str = "U0ADA", channel: str = "C0RELEASES", command: str | None = None) -> Reply:
        """Type the slash command with this text."""
        return people.type_command(self, user, channel, text, command)

    def click(self, message: Message, action_id: str, user: str = "U0ADA", *, from_team: str | None = None) -> Reply:
        """Click a button of a message."""
        return people.click(self, user, message.channel, message.ts, action_id, from_team=from_team)

    def submit(self, form: Form, *, from_team: str | None = None, **values: Any) -> Reply:
        """Submit a form with values by the ids of its blocks."""
        return people.submit(self, form.id, values, from_team=from_team)

    def uninstall(self, team: str = "T0ACME", *, tokens_first: bool = True) -> list[Reply]:
        """Uninstall the app in a workspace."""
        return people.uninstall(self, team, tokens_first=tokens_first)

    def deliver_event(self, event: Json, team: str = "T0ACME", event_id: str | None = None, retry: int = 0) -> Reply:
        """Send an event."""
        return people.deliver_event(self, team, event, event_id, retry)

    def open_forms(self, user: str = "U0ADA") -> list[Form]:
        """Return the forms that a person has open, the last one opened at the end."""
        return [form for form in self.forms.values() if form.open and form.user == user]
