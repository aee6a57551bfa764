"""Roles, scopes, actors, and the principal of a credential."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rules.billing.grants import PlanGrants

Role = Literal["viewer", "member", "admin", "owner"]
ROLES: tuple[Role, ...] = ("viewer", "member", "admin", "owner")

ActorType = Literal["user", "api_key", "schedule", "system", "support", "code_host"]
Source = Literal["dashboard", "api", "mcp", "compat", "slack", "schedule", "code_host", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something, in the audit log and in every `createdBy`."""

    type: ActorType
    id: str | None
    name: str

    def as_json(self) -> dict[str, str | None]:
        """Return the actor as the contract's `Actor` object."""
        return {"type": self.type, "id": self.id, "name": self.name}


SYSTEM = Actor("system", None, "Change-Freeze Service")
CODE_HOST = Actor("code_host", None, "GitHub")
ANONYMOUS = Actor("user", None, "a person who is not signed in")

_KINDS = {"api_key": "API key", "schedule": "schedule", "code_host": "GitHub"}


def shown_actor(actor: Mapping[str, Any] | None) -> str:
    """Return the name that people are shown of an actor, with what it is unless it is a member; "" if there is none.

    Otherwise a key could pass for the member that it is named like.
    """
    name, kind = str((actor or {}).get("name") or ""), (actor or {}).get("type")
    return f"{name} ({_KINDS[kind]})" if name and kind in _KINDS and (actor or {}).get("id") else name


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client that acts for a person, through what that person allowed it."""

    connection_id: str
    client_id: str
    name: str

    def as_json(self) -> dict[str, str]:
        """Return the client as the audit log names it."""
        return {"connectionId": self.connection_id, "id": self.client_id, "name": self.name}


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a verified credential: an organisation, with a key's scopes or a user's role, or both."""

    kind: Literal["api_key", "session", "oauth_grant", "slack_user"]
    id: str
    """`key_…`, `usr_…` or `ogr_…`: the owner of idempotency keys and write budgets."""
    name: str
    organization_id: str | None
    grants: PlanGrants = field(default_factory=PlanGrants)
    """What gives the organisation its plan."""
    scopes: frozenset[str] = field(default_factory=frozenset)
    role: Role | None = None
    support: bool = False
    """True for a support session, which is read-only."""
    session_id: str | None = None
    """The id of the session, if the credential is one."""
    user_id: str | None = None
    """The person, of a session, of an OAuth grant or of a Slack user."""
    client: ConnectedClient | None = None
    """The client of an OAuth grant."""

    @property
    def actor(self) -> Actor:
        """The principal as audit actor."""
        if self.support:
            return Actor("support", self.id, self.name)
        if self.kind == "api_key":
            return Actor("api_key", self.id, self.name)
        return Actor("user", self.user_id or self.id, self.name)

    @property
    def source(self) -> Source:
        """The audit source of changes by this principal, at the entrance that its kind is for."""
        return _SOURCES[self.kind]


_SOURCES: dict[str, Source] = {"session": "dashboard", "api_key": "api", "oauth_grant": "mcp", "slack_user": "slack"}


def role_reaches(role: Role | None, least: Role) -> bool:
    """True if `role` includes `least`; roles are ordered."""
    return role is not None and ROLES.index(role) >= ROLES.index(least)


def scopes_reach(scopes: Collection[str], any_of: Collection[str]) -> bool:
    """True if a key with `scopes` may call an operation that requires any of `any_of`."""
    return any(scope in scopes for scope in any_of)
