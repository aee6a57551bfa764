"""Authentication: the principal of a request, or a code of status 401.

Keys, sessions and roles are read from PostgreSQL on every request: a revoked key or a lost role takes effect at once,
because nothing of it is cached. The request is counted before `app/edge/authorization.py` decides what it may do.

A write is authenticated and authorized again in its transaction, since its body may arrive long after its headers, and
holds shared locks on what authorises it: organisation, membership, session, key. What revokes one of them waits for
these locks (triggers of the tables), so that a write is committed before the revocation, or refused. A streamed
response takes both steps again every few seconds, and ends early once one of them fails.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, LiteralString, get_args

from sqlalchemy.orm import Session

from app.edge.key_uses import KeyUses
from app.edge.token_verification import TokenVerifier
from models.billing import read_grants
from rules.access.login_sessions import cookie_name, find_cookie
from rules.access.origins import is_same_origin
from rules.access.permissions import ConnectedClient, Principal, Role
from rules.billing.grants import PlanGrants
from rules.billing.plans import FREE
from rules.errors import ServiceError
from services.core.clock import Clock
from services.core.read_context import Reader
from services.core.tokens import SESSION_PREFIX, token_hash
from services.identity.access_tokens import AccessTokenClaims, InvalidTokenError
from services.identity.api_key_secrets import PREFIX, looks_like_secret, secret_hash
from services.identity.oauth.access_tokens import GrantTokenClaims

_FIND_KEY = "SELECT *, freeze_version(organization_id) AS freeze_version FROM find_api_key(%s)"
_FIND_SESSION = "SELECT *, freeze_version(organization_id) AS freeze_version FROM find_session(%s, %s)"
_FIND_SIGN_IN = "SELECT * FROM find_sign_in(%s)"
_FIND_GRANT = "SELECT *, freeze_version(organization_id) AS freeze_version FROM find_oauth_grant(%s)"
_FIND_SLACK_PERSON = "SELECT * FROM find_slack_person(%s, %s)"
_LOCK_KEY = "SELECT * FROM lock_api_key(%s)"
_LOCK_SESSION = "SELECT * FROM lock_session(%s, %s)"
_LOCK_GRANT = "SELECT * FROM lock_oauth_grant(%s)"
_LOCK_SLACK_PERSON = "SELECT * FROM lock_slack_person(%s, %s)"
_SESSION_BEARER = b"Bearer " + SESSION_PREFIX.encode()
_MAX_CACHED = 10_000


@dataclass(slots=True)
class Identity:
    """The principal of a request, the time of the request, and the state of the principal's organisation."""

    principal: Principal
    now: datetime
    lock: Callable[[Session], "Identity"]
    """Lock in a transaction what the credential depends on, and return its identity then. Raise a 401 code."""
    organization_deleted: bool = False
    organization_count: int | None = None
    """The number of the person's organisations, if the session has selected none."""
    confirm: Callable[[], Awaitable["Identity"]] | None = None
    """Identify the same credential again, without locks. Raise a 401 code."""
    freeze_version: str | None = None
    """The version of the organisation's freezes (`models.freezes.FreezeVersion`), as read with the credential."""


class Credentials:
    """Authenticates requests.

    It caches only what follows from the header itself (that the checksum of a key is valid, and its hash), and the
    Principal object of a row that has not changed.
    """

    def __init__(
        self,
        reads: Reader,
        verifier: TokenVerifier[AccessTokenClaims],
        grant_verifier: TokenVerifier[GrantTokenClaims],
        clock: Clock,
        *,
        web_url: str,
        key_uses: KeyUses,
        default_plan: str = FREE.id,
    ) -> None:
        self._reads = reads
        self._verifier = verifier
        self._grant_verifier = grant_verifier
        self._clock = clock
        self._web_url = web_url
        self._cookie_name = cookie_name(web_url)
        self._key_uses = key_uses
        self._default_plan = default_plan
        self._hashes: dict[bytes, bytes] = {}
        self._principals: dict[str, tuple[tuple[Any, ...], Principal]] = {}

    async def identify(self, authorization: bytes | None) -> Identity:
        """Return the identity of an `Authorization` header. Raise a 401 code if it is missing or invalid."""
        hashed = self._hash_of_key(authorization)
        if hashed is not None:
            return await self._identify_key(hashed)
        token = bearer_token(authorization)
        if token.startswith(SESSION_PREFIX):
            message = "This is a session token. Send an access token (JWT) instead; GET /api/auth/token issues one."
            raise ServiceError("invalid_token", message)
        try:
            claims = await self._verifier.verify(token)
        except InvalidTokenError:
            raise ServiceError("invalid_token", "Invalid token.") from None
        return await self._identify_session(claims)

    async def identify_sign_in(self, header: Callable[[bytes], bytes | None], *, write: bool) -> Identity:
        """Return the identity of a session token, from `Authorization` or else from the cookie of the web origin.

        Browsers send cookies with cross-site requests as well, so a write with a cookie must come from our own origin.
        Raise a 401 code, or `origin_not_allowed`.
        """
        authorization = header(b"authorization")
        if authorization is None:
            token = find_cookie((header(b"cookie") or b"").decode("latin-1"), self._cookie_name)
            if not token:
                message = "Not signed in. Sign in, or send `Authorization: Bearer` with a session token."
                raise ServiceError("missing_credentials", message)
            if write and not is_same_origin(header, self._web_url):
                raise ServiceError(
                    "origin_not_allowed", "Requests with a session cookie must come from this service's own pages."
                )
            return await self._identify_session_token(token)
        hashed = self._hash_of_key(authorization)
        if hashed is not None:
            return await self._identify_key(hashed)
        return await self._identify_session_token(bearer_token(authorization))

    async def identify_classic_client(self, authorization: bytes | None) -> Identity:
        """Return the identity of a client of the compatibility API, whose token may have been sent in another place.

        Raise a code of status 401. Only keys may call the API; a valid token of a session is refused by `Authorizer`.
        """
        if authorization is None:
            raise ServiceError("missing_credentials", "Send an API key as access_token, or as `Authorization: Bearer`.")
        if authorization.startswith(_SESSION_BEARER):
            return await self._identify_session_token(bearer_token(authorization))
        return await self.identify(authorization)

    async def identify_visitor(self, authorization: bytes | None) -> Identity:
        """Return the identity of a visitor whose page calls an operation: only their session token is accepted.

        The page has checked the origin of its form. Raise a code of status 401.
        """
        return await self._identify_session_token(bearer_token(authorization))

    async def identify_mcp_client(self, authorization: bytes | None) -> Identity:
        """Return the identity of a client of the MCP server: an API key, or an access token of an OAuth grant.

        Raise a code of status 401, also for the tokens of sessions.
        """
        hashed = self._hash_of_key(authorization)
        if hashed is not None:
            return await self._identify_key(hashed)
        token = bearer_token(authorization)
        try:
            claims = await self._grant_verifier.verify(token)
        except InvalidTokenError:
            message = "Invalid token. The MCP server accepts API keys, and access tokens of connected clients."
            raise ServiceError("invalid_token", message) from None
        return await self._identify_grant(claims)

    async def identify_slack_user(
        self, team_id: str, slack_user_id: str
    ) -> Identity | Literal["not_linked", "not_connected"]:
        """Return the identity of the person that a Slack user is linked to; or why there is none.

        Slack has signed the request that names the user.
        """
        parameters = (team_id, slack_user_id)
        rows = await self._reads.fetch(_FIND_SLACK_PERSON, parameters)
        if not rows:
            return "not_connected"
        return self._slack_identity(parameters, rows) if rows[0]["role"] is not None else "not_linked"

    def _slack_identity(self, parameters: tuple[str, str], rows: Sequence[Mapping[Any, Any]]) -> Identity:
        row = rows[0] if rows else {}
        if not row or row["role"] is None:
            raise ServiceError("invalid_token", "Your Slack user is no longer linked to an account.")
        principal = Principal(
            kind="slack_user",
            id=row["user_id"],
            name=row["user_name"],
            organization_id=row["organization_id"],
            grants=self._grants(rows),
            role=_role(row),
            user_id=row["user_id"],
        )
        lock = partial(_lock, _LOCK_SLACK_PERSON, parameters, partial(self._slack_identity, parameters))
        deleted = row["organization_deleted_at"] is not None
        return Identity(principal, self._clock.read(row["now"]), lock, deleted)

    async def _identify_grant(self, claims: GrantTokenClaims) -> Identity:
        rows = await self._reads.fetch(_FIND_GRANT, (claims.grant_id,))
        identity = self._grant_identity(claims, rows)
        identity.freeze_version = rows[0]["freeze_version"]
        identity.confirm = partial(self._identify_grant, claims)
        return identity

    def _grant_identity(self, claims: GrantTokenClaims, rows: Sequence[Mapping[Any, Any]]) -> Identity:
        row = rows[0] if rows else {}
        named = (claims.user_id, claims.organization_id, claims.client_id)
        if not row or (row["user_id"], row["organization_id"], row["client_id"]) != named:
            raise ServiceError("invalid_token", "Invalid token.")
        deleted_at = row["organization_deleted_at"]
        if row["revoked_at"] not in {None, deleted_at}:  # Authorizer reports a deleted organisation
            raise ServiceError("invalid_token", "The connection has ended. Connect the client again.")
        if row["role"] is None and deleted_at is None:
            raise ServiceError("invalid_token", "You are no longer a member of the organisation.")
        now = self._clock.read(row["now"])
        if now >= datetime.fromtimestamp(claims.expires_at, UTC) or now >= row["expires_at"]:
            raise ServiceError("token_expired", "The access token has expired. Get a new one with the refresh token.")
        principal = Principal(
            kind="oauth_grant",
            id=row["grant_id"],
            name=row["user_name"],
            organization_id=row["organization_id"],
            grants=self._grants(rows),
            scopes=claims.scopes & frozenset(row["scopes"]),
            role=_role(row),
            user_id=row["user_id"],
            client=ConnectedClient(row["grant_id"], row["client_id"], row["client_name"]),
        )
        lock = partial(_lock, _LOCK_GRANT, (claims.grant_id,), partial(self._grant_identity, claims))
        return Identity(principal, now, lock, deleted_at is not None)

    async def _identify_session_token(self, token: str) -> Identity:
        if not token.startswith(SESSION_PREFIX):
            raise ServiceError(
                "invalid_token", "This endpoint requires a session token. Sign in or authorize a device to get one."
            )
        identity = self._sign_in_identity(await self._reads.fetch(_FIND_SIGN_IN, (token_hash(token),)))
        identity.confirm = partial(self._identify_session_token, token)
        return identity

    def _sign_in_identity(self, rows: Sequence[Mapping[Any, Any]]) -> Identity:
        row = _open_session(rows)
        now = self._clock.read(row["now"])
        if now >= row["expires_at"]:
            raise ServiceError("token_expired", "The session has expired; sign in again.")
        lock = partial(_lock, _LOCK_SESSION, (row["session_id"], row["organization_id"]), self._sign_in_identity)
        return _session_identity(row, now, lock, self._grants(rows), support=row["support"])

    def _grants(self, rows: Sequence[Mapping[str, Any]]) -> PlanGrants:
        """Return the grants of the principal's organisation; there is a row for each, or one row if there is none."""
        return read_grants(tuple([row["organization_grants"] for row in rows]), self._default_plan)

    def _hash_of_key(self, authorization: bytes | None) -> bytes | None:
        """Return the hash of the API key in an `Authorization` header, None if it holds a token of another kind.

        It is remembered by the header that it was read from. Raise `missing_credentials`, and `invalid_token`, without
        a query, if the checksum of a key is wrong.
        """
        header = authorization or b""
        known = self._hashes.get(header)
        if known is not None:
            return known
        secret = bearer_token(header)
        if not secret.startswith(PREFIX):
            return None
        if not looks_like_secret(secret):
            raise ServiceError("invalid_token", "Invalid API key.")
        if len(self._hashes) >= _MAX_CACHED:
            self._hashes.clear()
        found = self._hashes[header] = secret_hash(secret)
        return found

    async def _identify_key(self, hashed: bytes) -> Identity:
        rows = await self._reads.fetch(_FIND_KEY, (hashed,))
        identity = self._key_identity(hashed, rows)
        identity.freeze_version = rows[0]["freeze_version"]
        self._key_uses.record(identity.principal.id, identity.now)
        identity.confirm = partial(self._identify_key, hashed)
        return identity

    def _key_identity(self, hashed: bytes, rows: Sequence[Mapping[Any, Any]]) -> Identity:
        if not rows:
            raise ServiceError("invalid_token", "Invalid API key.")
        row = rows[0]
        now = self._clock.read(row["now"])
        secret_ends_at, expires_at, deleted_at = (
            row["secret_ends_at"],
            row["expires_at"],
            row["organization_deleted_at"],
        )
        if row["revoked_at"] not in {None, deleted_at}:  # Authorizer reports a deleted organisation
            raise ServiceError("invalid_token", "The API key has been revoked.")
        if expires_at is not None and now >= expires_at:
            raise ServiceError("token_expired", "The API key has expired. Create a new one.")
        if secret_ends_at is not None and now >= secret_ends_at:
            raise ServiceError("invalid_token", "This secret has been rotated. Use the new secret of the API key.")
        lock = partial(_lock, _LOCK_KEY, (hashed,), partial(self._key_identity, hashed))
        return Identity(self._key_principal(rows), now, lock, deleted_at is not None)

    def _key_principal(self, rows: Sequence[Mapping[str, Any]]) -> Principal:
        row, grants = rows[0], self._grants(rows)
        facts = (row["key_name"], row["organization_id"], grants, row["scopes"])
        known = self._principals.get(row["key_id"])
        if known is not None and known[0] == facts:
            return known[1]
        if len(self._principals) >= _MAX_CACHED:
            self._principals.clear()
        name, organization_id, _, scopes = facts
        principal = Principal("api_key", row["key_id"], name, organization_id, grants, frozenset(scopes))
        self._principals[row["key_id"]] = (facts, principal)
        return principal

    async def _identify_session(self, claims: AccessTokenClaims) -> Identity:
        rows = await self._reads.fetch(_FIND_SESSION, (claims.session_id, claims.organization_id))
        identity = self._token_identity(claims, rows)
        identity.freeze_version = rows[0]["freeze_version"]
        identity.confirm = partial(self._identify_session, claims)
        return identity

    def _token_identity(self, claims: AccessTokenClaims, rows: Sequence[Mapping[Any, Any]]) -> Identity:
        row = _open_session(rows)
        if row["user_id"] != claims.user_id:
            raise ServiceError("invalid_token", "The session has ended.")
        if claims.organization_id is not None and row["organization_id"] is None:
            message = "You are not a member of the token's organisation. Get a new token from GET /api/auth/token."
            raise ServiceError("invalid_token", message)
        now = self._clock.read(row["now"])
        if now >= datetime.fromtimestamp(claims.expires_at, UTC) or now >= row["expires_at"]:
            raise ServiceError("token_expired", "The token has expired. Get a new one from GET /api/auth/token.")
        parameters = (claims.session_id, claims.organization_id)
        lock = partial(_lock, _LOCK_SESSION, parameters, partial(self._token_identity, claims))
        return _session_identity(row, now, lock, self._grants(rows), support=row["support"] or claims.support)


def _lock(
    statement: LiteralString,
    parameters: tuple[Any, ...],
    identity_of: Callable[[Sequence[Mapping[Any, Any]]], Identity],
    session: Session,
) -> Identity:
    rows = session.connection().exec_driver_sql(statement, parameters).mappings().all()
    return identity_of(rows)


def _open_session(rows: Sequence[Mapping[Any, Any]]) -> Mapping[str, Any]:
    if not rows or rows[0]["revoked_at"] is not None:
        raise ServiceError("invalid_token", "The session has ended.")
    return rows[0]


def _session_identity(
    row: Mapping[str, Any], now: datetime, lock: Callable[[Session], Identity], grants: PlanGrants, *, support: bool
) -> Identity:
    principal = Principal(
        kind="session",
        id=row["user_id"],
        name=row["user_name"],
        organization_id=row["organization_id"],
        grants=grants,
        role=_role(row),
        support=support,
        session_id=row["session_id"],
        user_id=row["user_id"],
    )
    return Identity(principal, now, lock, row["organization_deleted_at"] is not None, row["organization_count"])


def bearer_token(authorization: bytes | None) -> str:
    """Return the token of an `Authorization: Bearer` header. Raise `missing_credentials` if there is none."""
    if authorization is not None:
        scheme, _, token = authorization.partition(b" ")
        token = token.strip(b" ")
        if scheme.lower() == b"bearer" and token.isascii() and token and b" " not in token:
            return token.decode("ascii")
    raise ServiceError("missing_credentials", "Send `Authorization: Bearer` with an API key or an access token.")


def _role(row: Mapping[str, Any]) -> Role | None:
    role = row["role"]
    return role if role in get_args(Role) else None
