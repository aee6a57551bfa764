"""The state of the simulated Slack: workspaces, tokens, messages, forms, settings, faults, counters."""

import itertools
import threading
import time
from collections.abc import Callable

from tools.fake_slack.calls import Calls
from tools.fake_slack.model import (
    Channel,
    Form,
    Json,
    Message,
    ResponseAddress,
    Token,
    Trigger,
    Workspace,
    first_workspaces,
)
from tools.fake_slack.settings import Settings
from tools.simulation.faults import Faults

APP_ID, BOT = "A0FREEZE", "U0BOT"
REFUSAL = "refusal"
"""A kind of fault: HTTP 200 with `ok: false`, and the fault's message as Slack's error code."""


class Core:
    """Workspaces, and one app. `clock` returns the seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.base_url = "http://localhost"
        self.clock = clock
        self.lock = threading.RLock()
        self.settings = Settings()
        self.faults = Faults(REFUSAL)
        self.calls = Calls()
        self.changes = 0
        """How often something changed; it never decreases, so that a change is never taken for what was saved."""
        self.clear()

    def clear(self) -> None:
        """Begin with the first workspaces, without an installation."""
        self.workspaces = first_workspaces()
        self.codes: dict[str, Json] = {}
        self.tokens: list[Token] = []
        self.messages: list[Message] = []
        self.forms: dict[str, Form] = {}
        self.responses: dict[str, ResponseAddress] = {}
        self.triggers: dict[str, Trigger] = {}
        self.posted_at: dict[str, float] = {}
        self.requests: list[Json] = []
        """What was sent to the app, with its answers."""
        self.numbers = itertools.count(1)
        self.changes += 1

    def next_id(self, prefix: str) -> str:
        """Return an id that was never used."""
        return f"{prefix}{next(self.numbers):06d}"

    def next_ts(self) -> str:
        """Return the `ts` of a new message."""
        return f"{int(self.clock())}.{next(self.numbers):06d}"

    def token_of(self, team: str | None) -> Token | None:
        """Return the live token of a workspace."""
        return next((each for each in self.tokens if each.team == team and not each.revoked), None)

    def workspace(self, team: str) -> Workspace:
        """Return a workspace; raise KeyError."""
        return self.workspaces[team]

    def channel(self, team: str, channel: str) -> Channel | None:
        """Return a channel, or None."""
        return self.workspaces[team].channels.get(channel)

    def team_of(self, user: str) -> str:
        """Return the workspace of a person; raise KeyError."""
        return next(team for team, each in self.workspaces.items() if user in each.people)

    def message(self, channel: str, ts: str) -> Message | None:
        """Return a message that was not deleted, or None."""
        return next(
            (each for each in self.messages if (each.channel, each.ts) == (channel, ts) and not each.deleted), None
        )

    def shown(self, channel: str, user: str | None = None) -> list[Message]:
        """Return the messages that a person sees in a channel, in order; without a person, those that all see."""
        return [
            each
            for each in self.messages
            if each.channel == channel and not each.deleted and each.only_for in {None, user}
        ]
