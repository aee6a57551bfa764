"""Who may do what: roles, scopes, and the principal that a credential stands for."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["viewer", "member", "admin", "owner"]
ROLES: tuple[Role, ...] = ("viewer", "member", "admin", "owner")

ActorType = Literal["user", "api_key", "schedule", "system", "support", "code_host"]
Source = Literal["dashboard", "api", "mcp", "compat", "slack", "schedule", "code_host", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something, as the audit and every `createdBy` tell it."""

    type: ActorType
    id: str | None
    name: str

    def as_json(self) -> dict[str, str | None]:
        """Return the actor as the contract's `Actor` object."""
        return {"type": self.type, "id": self.id, "name": self.name}


SYSTEM = Actor("system", None, "Change-Freeze Service")
CODE_HOST = Actor("code_host", None, "GitHub")
NOBODY = Actor("user", None, "somebody who is not signed in")


@dataclass(frozen=True, slots=True)
class Principal:
    """What a verified credential stands for: one organisation, and either a key's scopes or a user's role."""

    kind: Literal["api_key", "session"]
    id: str
    """`key_…` or `usr_…`: what idempotency keys and write budgets are bound to."""
    name: str
    organization_id: str | None
    plan: str = "free"
    scopes: frozenset[str] = field(default_factory=frozenset)
    role: Role | None = None
    support: bool = False
    """A support session: reads everything, changes nothing."""
    session_id: str | None = None
    """The sign-in of a session."""

    @property
    def actor(self) -> Actor:
        """The principal as an actor."""
        if self.support:
            return Actor("support", self.id, self.name)
        return Actor("user" if self.kind == "session" else "api_key", self.id, self.name)

    @property
    def source(self) -> Source:
        """Where a change by this principal is said to come from."""
        return "dashboard" if self.kind == "session" else "api"


def role_reaches(role: Role | None, least: Role) -> bool:
    """Tell whether `role` has every right of `least`; the roles are ordered."""
    return role is not None and ROLES.index(role) >= ROLES.index(least)


def scopes_reach(scopes: Collection[str], any_of: Collection[str]) -> bool:
    """Tell whether a key with `scopes` may call an operation that takes any one of `any_of`."""
    return any(scope in scopes for scope in any_of)
