"""What there is: workspaces with people and channels, messages, forms, and what the app was granted."""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Channel:
    """A channel; our bot may post into a public one, and into a private one that it has joined."""

    id: str
    name: str
    private: bool = False
    archived: bool = False
    restricted: bool = False
    joined: bool = False


@dataclass(slots=True)
class Workspace:
    """A workspace, with its people by id."""

    id: str
    name: str
    people: dict[str, str] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)


@dataclass(slots=True)
class Token:
    """What the app was granted in a workspace (None: in all of an enterprise)."""

    access_token: str
    team: str | None
    scopes: list[str]
    refresh_token: str | None = None
    revoked: bool = False


@dataclass(slots=True)
class Message:
    """A message in a channel, or one that a single person sees."""

    ts: str
    team: str
    channel: str
    text: str
    blocks: list[Json]
    thread_ts: str | None = None
    only_for: str | None = None
    edited: bool = False
    deleted: bool = False


@dataclass(slots=True)
class Form:
    """A form that a person has open, as the app described it."""

    id: str
    team: str
    user: str
    view: Json
    open: bool = True
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ResponseAddress:
    """A `response_url`: five messages in 30 minutes."""

    team: str
    channel: str
    user: str
    message_ts: str | None
    made_at: float
    uses: int = 0


@dataclass(slots=True)
class Trigger:
    """A `trigger_id`: one form within three seconds."""

    team: str
    user: str
    made_at: float
    used: bool = False


def first_workspaces() -> dict[str, Workspace]:
    """Return the workspaces of a new Slack."""
    return {
        "T0ACME": Workspace(
            "T0ACME",
            "Acme",
            {"U0ADA": "ada", "U0GRACE": "grace", "U0EVE": "eve"},
            {
                "C0GENERAL": Channel("C0GENERAL", "general"),
                "C0RELEASES": Channel("C0RELEASES", "releases"),
                "C0SECRET": Channel("C0SECRET", "secret", private=True),
                "C0OLD": Channel("C0OLD", "old", archived=True),
            },
        ),
        "T0GLOBEX": Workspace(
            "T0GLOBEX",
            "Globex",
            {"U1HANK": "hank", "U1IDA": "ida"},
            {"C1GENERAL": Channel("C1GENERAL", "general")},
        ),
    }
