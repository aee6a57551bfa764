"""From a credential to a principal, and from a principal to what it may do.

Two steps, because a request is counted between them: `Credentials.identify` tells who asks (401), `Authorizer` tells
whether they may (410, 403). What a credential is worth is read from PostgreSQL on every request, by its clock: a
revoked key or a lost role acts at once, and no cache can outlive either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString, cast, get_args

from app.edge.access_tokens import TokenVerifier
from app.edge.key_uses import KeyUses
from app.edge.origins import sent_from_here
from rules.access.permissions import Principal, Role, role_reaches
from rules.errors import ServiceError
from schemas.contract import Operation
from services.core.clock import Clock
from services.core.read_context import Reader
from services.core.tokens import SESSION_PREFIX, token_hash
from services.identity.access_tokens import InvalidTokenError, SessionClaims
from services.identity.api_key_secrets import PREFIX, looks_like_secret, secret_hash

_FIND_KEY = "SELECT * FROM find_api_key(%s)"
_FIND_SESSION = "SELECT * FROM find_session(%s, %s)"
_FIND_SIGN_IN = "SELECT * FROM find_sign_in(%s)"
COOKIE = b"session"
"""The cookie of our web origin that holds a session token."""
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class Identity:
    """Who asks, when by the service's clock, and what stands in the way of their organisation."""

    principal: Principal
    now: datetime
    organization_deleted: bool = False
    organization_count: int = 1


class Credentials:
    """Tells who asks.

    Remembered is only what follows from the header alone (that a key's checksum is right, and its hash), and the
    principal object of a row that has not changed.
    """

    def __init__(
        self, reads: Reader, verifier: TokenVerifier, clock: Clock, *, web_url: str, key_uses: KeyUses
    ) -> None:
        self._reads = reads
        self._verifier = verifier
        self._clock = clock
        self._web_url = web_url
        self._key_uses = key_uses
        self._hashes: dict[bytes, bytes] = {}
        self._principals: dict[str, tuple[tuple[Any, ...], Principal]] = {}

    async def identify(self, authorization: bytes | None) -> Identity:
        """Return who the `Authorization` header stands for; raises a code of status 401."""
        known = self._hashes.get(authorization or b"")
        if known is not None:
            return await self._key(known)
        token = bearer_token(authorization)
        if token.startswith(PREFIX):
            return await self._key(self._checked(authorization or b"", token))
        if token.startswith(SESSION_PREFIX):
            message = "This is a session token; send a session JWT, which GET /api/auth/token mints from it."
            raise ServiceError("invalid_token", message)
        try:
            claims = await self._verifier.verify(token)
        except InvalidTokenError:
            raise ServiceError("invalid_token", "The token does not verify.") from None
        return await self._session(claims)

    async def identify_sign_in(self, header: Callable[[bytes], bytes | None], *, write: bool) -> Identity:
        """Return who a session token stands for: one in `Authorization`, or else in the cookie of our web origin.

        A cookie is sent by browsers whoever asks them to: a write with one has to come from a page of ours. Raises a
        code of status 401, or `origin_not_allowed`.
        """
        authorization = header(b"authorization")
        token = bearer_token(authorization) if authorization is not None else _cookie(header(b"cookie"))
        if authorization is None and write and not sent_from_here(header, self._web_url):
            raise ServiceError("origin_not_allowed", "With a cookie, this has to be sent by a page of this service.")
        if token.startswith(PREFIX):
            return await self._key(self._checked(authorization or b"", token))
        if not token.startswith(SESSION_PREFIX):
            raise ServiceError("invalid_token", "This takes a session token, as sign-in or a device is given one.")
        row = await self._sign_in_row(_FIND_SIGN_IN, (token_hash(token),))
        now = self._clock.read(row["now"])
        if now >= row["expires_at"]:
            raise ServiceError("token_expired", "The session has expired; sign in again.")
        return _session_identity(row, now, support=row["support"])

    def _checked(self, authorization: bytes, secret: str) -> bytes:
        """Return the hash of a secret whose checksum is right; anything else needs no query."""
        if not looks_like_secret(secret):
            raise ServiceError("invalid_token", "There is no such API key.")
        if len(self._hashes) >= _MOST_REMEMBERED:
            self._hashes.clear()
        found = self._hashes[authorization] = secret_hash(secret)
        return found

    async def _key(self, hashed: bytes) -> Identity:
        rows = await self._reads.fetch(_FIND_KEY, (hashed,))
        if not rows:
            raise ServiceError("invalid_token", "There is no such API key.")
        row = rows[0]
        now = self._clock.read(row["now"])
        secret_ends_at, expires_at = row["secret_ends_at"], row["expires_at"]
        if row["revoked_at"] not in {None, row["organization_deleted_at"]}:  # what the deletion ended is told so
            raise ServiceError("invalid_token", "The API key has been revoked.")
        if expires_at is not None and now >= expires_at:
            raise ServiceError("token_expired", "The API key has expired; it cannot be extended, create another.")
        if secret_ends_at is not None and now >= secret_ends_at:
            raise ServiceError("invalid_token", "This secret of the API key has been replaced by a newer one.")
        self._key_uses.note(row["key_id"], now)
        return Identity(self._key_principal(row), now, row["organization_deleted_at"] is not None)

    def _key_principal(self, row: Mapping[str, Any]) -> Principal:
        facts = (row["key_name"], row["organization_id"], row["organization_plan"], row["scopes"])
        known = self._principals.get(row["key_id"])
        if known is not None and known[0] == facts:
            return known[1]
        if len(self._principals) >= _MOST_REMEMBERED:
            self._principals.clear()
        name, organization_id, plan, scopes = facts
        principal = Principal("api_key", row["key_id"], name, organization_id, plan, frozenset(scopes))
        self._principals[row["key_id"]] = (facts, principal)
        return principal

    async def _session(self, claims: SessionClaims) -> Identity:
        row = await self._sign_in_row(_FIND_SESSION, (claims.session_id, claims.organization_id))
        if row["user_id"] != claims.user_id:
            raise ServiceError("invalid_token", "The session has ended.")
        now = self._clock.read(row["now"])
        if now >= datetime.fromtimestamp(claims.expires_at, UTC) or now >= row["expires_at"]:
            raise ServiceError("token_expired", "The token has expired; mint another.")
        return _session_identity(row, now, support=row["support"] or claims.support)

    async def _sign_in_row(self, query: LiteralString, parameters: tuple[Any, ...]) -> Mapping[str, Any]:
        rows = await self._reads.fetch(query, parameters)
        if not rows or rows[0]["revoked_at"] is not None:
            raise ServiceError("invalid_token", "The session has ended.")
        return rows[0]


def _session_identity(row: Mapping[str, Any], now: datetime, *, support: bool) -> Identity:
    principal = Principal(
        kind="session",
        id=row["user_id"],
        name=row["user_name"],
        organization_id=row["organization_id"],
        plan=row["organization_plan"] or "free",
        role=_role(row),
        support=support,
        session_id=row["session_id"],
    )
    return Identity(principal, now, row["organization_deleted_at"] is not None, row["organization_count"])


def _cookie(header: bytes | None) -> str:
    """Return the session token of a `Cookie` header; raises `missing_credentials` without one."""
    for pair in (header or b"").split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name == COOKIE and value.isascii() and value:
            return value.decode("ascii")
    raise ServiceError("missing_credentials", "Sign in, or send `Authorization: Bearer` with a session token.")


def bearer_token(authorization: bytes | None) -> str:
    """Return the token of an `Authorization: Bearer` header; raises `missing_credentials` for anything else."""
    if authorization is not None:
        scheme, _, token = authorization.partition(b" ")
        token = token.strip(b" ")
        if scheme.lower() == b"bearer" and token.isascii() and token and b" " not in token:
            return token.decode("ascii")
    raise ServiceError("missing_credentials", "Send `Authorization: Bearer` with an API key or a session JWT.")


class Authorizer:
    """Refuses what a principal may not do with one operation: 410 and 403, in the order in which they help most."""

    def __init__(self, operation: Operation) -> None:
        self._organization_required = operation.organization_required
        self._writes = operation.effect == "write"
        self._scopes = frozenset(operation.any_scope)
        self._takes_key = operation.accepts("ApiKey")
        self._takes_session = operation.accepts("Session") or operation.accepts("SessionToken")
        self._least_role = cast("Role | None", operation.least_role) if operation.organization_required else None

    def check(self, identity: Identity) -> None:
        """Raise unless the principal may."""
        principal = identity.principal
        if self._organization_required and (identity.organization_deleted or principal.organization_id is None):
            _refuse_without_organization(identity)
        if principal.kind == "api_key":
            self._check_key(principal)
        else:
            self._check_session(principal)
        if principal.support and self._writes:
            raise ServiceError("impersonation_read_only", "A support session reads everything and changes nothing.")

    def _check_key(self, principal: Principal) -> None:
        if not self._takes_key:
            raise ServiceError("credential_type_not_allowed", "This takes a signed-in session, not an API key.")
        if self._scopes and self._scopes.isdisjoint(principal.scopes):
            raise ServiceError("insufficient_scope", f"The key needs the scope {' or '.join(sorted(self._scopes))}.")

    def _check_session(self, principal: Principal) -> None:
        if not self._takes_session:
            raise ServiceError("credential_type_not_allowed", "This takes an API key, not a session.")
        least = self._least_role
        if least is not None and not principal.support and not role_reaches(principal.role, least):
            raise ServiceError("insufficient_permission", f"This needs the role {least}; yours is {principal.role}.")


def _refuse_without_organization(identity: Identity) -> None:
    if identity.organization_deleted:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    if identity.organization_count == 0:
        raise ServiceError(
            "organization_not_provisioned", "You have no organisation; POST /v1/onboarding/bootstrap creates one."
        )
    message = "Select one of your organisations: POST /api/auth/org/set-active, then GET /api/auth/token anew."
    raise ServiceError("no_organization_selected", message)


def _role(row: Mapping[str, Any]) -> Role | None:
    role = row["role"]
    return role if role in get_args(Role) else None
