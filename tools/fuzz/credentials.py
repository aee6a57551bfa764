"""The kinds of credential that the contract is tried with."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rules.permissions import ROLES
from schemas.contract import Operation
from tools.sandbox.tenants import SCOPES

SINGLE_SCOPE = "freeze:read"


@dataclass(frozen=True, slots=True)
class Credential:
    """A bearer token, and what it is entitled to by the contract."""

    kind: str
    token: str | None
    scopes: tuple[str, ...] = ()
    role: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the service knows it."""
        return bool(self.scopes or self.role)

    def may_call(self, operation: Operation) -> bool:
        """Tell whether the contract lets this credential in; objects and states are another matter."""
        if not (operation.accepts("ApiKey") or operation.accepts("Session")):
            return True
        if self.role is not None:
            least = operation.least_role or ROLES[0]
            return operation.accepts("Session") and ROLES.index(self.role) >= ROLES.index(least)
        return any(scope in self.scopes for scope in operation.any_scope)

    def to_json(self) -> str:
        """Return it as text, for the environment of Schemathesis."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Credential":
        """Read what `to_json` wrote."""
        given = json.loads(text)
        return cls(given["kind"], given["token"], tuple(given["scopes"]), given["role"])


def credentials_of(organization: dict[str, Any]) -> list[Credential]:
    """Return one credential of each kind, those that change the least first."""
    keys, sessions = organization["keys"], organization["sessions"]
    return [
        Credential("none", None),
        Credential("garbage", "svc_live_garbage"),
        Credential("viewer", sessions["viewer"], role="viewer"),
        Credential(SINGLE_SCOPE, keys[SINGLE_SCOPE], scopes=(SINGLE_SCOPE,)),
        Credential("owner", sessions["owner"], role="owner"),
        Credential("all", keys["all"], scopes=tuple(SCOPES)),
    ]
