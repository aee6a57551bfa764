"""The kinds of credential that the contract is fuzzed with."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rules.access.permissions import ROLES
from schemas.contract import Operation
from tools.sandbox.tenants import SCOPES

SINGLE_SCOPE = "freeze:read"
SIGN_IN = "sign-in"
"""The kind that is a session token, which `/api/auth` takes in place of keys and JWTs."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A bearer token with its scopes or its role; neither if the service does not know it."""

    kind: str
    token: str | None
    scopes: tuple[str, ...] = ()
    role: str | None = None
    form: Literal["key", "jwt", "session_token"] = "key"

    @property
    def is_valid(self) -> bool:
        """True if the service knows it."""
        return bool(self.scopes or self.role)

    def may_call(self, operation: Operation) -> bool:
        """Return True if the contract lets the credential call an operation; objects and states may still refuse it."""
        if not is_guarded(operation):
            return True
        if self.role is None:
            return any(scope in self.scopes for scope in operation.any_scope)
        least = (operation.least_role if operation.organization_required else None) or ROLES[0]
        scheme = "SessionToken" if self.form == "session_token" else "Session"
        return operation.accepts(scheme) and ROLES.index(self.role) >= ROLES.index(least)

    def to_json(self) -> str:
        """Return it as text, for the environment of Schemathesis."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Credential":
        """Read what `to_json` wrote."""
        given = json.loads(text)
        return cls(given["kind"], given["token"], tuple(given["scopes"]), given["role"], given["form"])


def credentials_of(organization: dict[str, Any]) -> list[Credential]:
    """Return one credential of each kind, for an organisation of `sandbox.json`; those that change the least first."""
    keys, sessions, tokens = organization["keys"], organization["sessions"], organization["sessionTokens"]
    return [
        Credential("none", None),
        Credential("garbage", "svc_live_garbage"),
        Credential("viewer", sessions["viewer"], role="viewer", form="jwt"),
        Credential(SINGLE_SCOPE, keys[SINGLE_SCOPE], scopes=(SINGLE_SCOPE,)),
        Credential("owner", sessions["owner"], role="owner", form="jwt"),
        Credential(SIGN_IN, tokens["owner"], role="owner", form="session_token"),
        Credential("all", keys["all"], scopes=tuple(SCOPES)),
    ]


def is_guarded(operation: Operation) -> bool:
    """True if an operation requires a credential of ours."""
    return any(operation.accepts(scheme) for scheme in ("ApiKey", "Session", "SessionToken"))
