"""From a credential to a principal, and from a principal to what it may do.

Two steps, because a request is counted between them: `Credentials.identify` tells who asks (401), `authorize` tells
whether they may (410, 403). What a credential is worth is read from PostgreSQL on every request, by its clock: a
revoked key or a lost role acts at once, and no cache can outlive either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast, get_args

from app.database import Reads
from app.tokens import TokenVerifier
from rules.errors import ServiceError
from rules.permissions import Principal, Role, role_reaches, scopes_reach
from schemas.contract import Operation
from services.api_key_secrets import PREFIX, looks_like_secret, secret_hash
from services.clock import Clock
from services.sessions import InvalidTokenError, SessionClaims

_FIND_KEY = "SELECT * FROM find_api_key(%s)"
_FIND_SESSION = "SELECT * FROM find_session(%s, %s)"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, when by the service's clock, and what stands in the way of their organisation."""

    principal: Principal
    now: datetime
    organization_deleted: bool = False
    organization_count: int = 1


class Credentials:
    """Tells who asks."""

    def __init__(self, reads: Reads, verifier: TokenVerifier, clock: Clock) -> None:
        self._reads = reads
        self._verifier = verifier
        self._clock = clock

    async def identify(self, authorization: bytes | None) -> Identity:
        """Return who the `Authorization` header stands for; raises a code of status 401."""
        token = bearer_token(authorization)
        if token.startswith(PREFIX):
            return await self._key(token)
        try:
            claims = await self._verifier.verify(token)
        except InvalidTokenError:
            raise ServiceError("invalid_token", "The token does not verify.") from None
        return await self._session(claims)

    async def _key(self, secret: str) -> Identity:
        rows = await self._reads.fetch(_FIND_KEY, (secret_hash(secret),)) if looks_like_secret(secret) else []
        if not rows:
            raise ServiceError("invalid_token", "There is no such API key.")
        row = rows[0]
        now = self._clock.read(row["now"])
        if row["revoked_at"] is not None or _reached(row["secret_ends_at"], now):
            raise ServiceError("invalid_token", "The API key has been revoked or replaced.")
        if _reached(row["expires_at"], now):
            raise ServiceError("token_expired", "The API key has expired; it cannot be extended, create another.")
        principal = Principal(
            kind="api_key",
            id=row["key_id"],
            name=row["key_name"],
            organization_id=row["organization_id"],
            plan=row["organization_plan"],
            scopes=frozenset(row["scopes"]),
        )
        return Identity(principal, now, organization_deleted=row["organization_deleted_at"] is not None)

    async def _session(self, claims: SessionClaims) -> Identity:
        rows = await self._reads.fetch(_FIND_SESSION, (claims.session_id, claims.organization_id))
        if not rows or rows[0]["user_id"] != claims.user_id or rows[0]["revoked_at"] is not None:
            raise ServiceError("invalid_token", "The session has ended.")
        row = rows[0]
        now = self._clock.read(row["now"])
        if now >= datetime.fromtimestamp(claims.expires_at, UTC) or _reached(row["expires_at"], now):
            raise ServiceError("token_expired", "The token has expired; mint another.")
        principal = Principal(
            kind="session",
            id=row["user_id"],
            name=row["user_name"],
            organization_id=row["organization_id"],
            plan=row["organization_plan"] or "free",
            role=_role(row),
            support=row["support"] or claims.support,
        )
        return Identity(principal, now, row["organization_deleted_at"] is not None, row["organization_count"])


def bearer_token(authorization: bytes | None) -> str:
    """Return the token of an `Authorization: Bearer` header; raises `missing_credentials` for anything else."""
    if authorization is not None:
        scheme, _, token = authorization.partition(b" ")
        token = token.strip(b" ")
        if scheme.lower() == b"bearer" and token.isascii() and token and b" " not in token:
            return token.decode("ascii")
    raise ServiceError("missing_credentials", "Send `Authorization: Bearer` with an API key or a session token.")


def authorize(identity: Identity, operation: Operation) -> None:
    """Refuse what the principal may not do: 410 and 403, in the order in which they help most."""
    principal = identity.principal
    if operation.organization_required:
        _require_organization(identity)
    if principal.kind == "api_key":
        _authorize_key(principal, operation)
    else:
        _authorize_session(principal, operation)
    if principal.support and operation.effect == "write":
        raise ServiceError("impersonation_read_only", "A support session reads everything and changes nothing.")


def _require_organization(identity: Identity) -> None:
    if identity.organization_deleted:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    if identity.principal.organization_id is None:
        if identity.organization_count == 0:
            raise ServiceError(
                "organization_not_provisioned", "You have no organisation; POST /v1/onboarding/bootstrap creates one."
            )
        raise ServiceError("no_organization_selected", "Select one of your organisations, and mint another token.")


def _authorize_key(principal: Principal, operation: Operation) -> None:
    if not operation.accepts("ApiKey"):
        raise ServiceError("credential_type_not_allowed", "This takes a signed-in session, not an API key.")
    scopes = operation.any_scope
    if scopes and not scopes_reach(principal.scopes, scopes):
        raise ServiceError("insufficient_scope", f"The key needs the scope {' or '.join(scopes)}.")


def _authorize_session(principal: Principal, operation: Operation) -> None:
    if not operation.accepts("Session"):
        raise ServiceError("credential_type_not_allowed", "This takes an API key, not a session.")
    least = operation.least_role
    if least is None or not operation.organization_required or principal.support:
        return
    if not role_reaches(principal.role, cast(Role, least)):
        raise ServiceError("insufficient_permission", f"This needs the role {least}; yours is {principal.role}.")


def _reached(instant: datetime | None, now: datetime) -> bool:
    return instant is not None and now >= instant


def _role(row: Mapping[str, Any]) -> Role | None:
    role = row["role"]
    return role if role in get_args(Role) else None
