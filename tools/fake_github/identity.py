"""Who calls: the App by its JWT, an installation by its token, a person by theirs."""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import timedelta

import jwt
import orjson

from tools.fake_github.model.identifiers import timestamp
from tools.fake_github.model.installations import reaches
from tools.fake_github.model.records import Account, App, Installation, Repository, Ruleset
from tools.fake_github.model.refusals import Refusal, forbidden_to_integration
from tools.fake_github.model.world import Actor, World

TOKEN_LIFETIME = timedelta(hours=1)
MAX_JWT_LIFETIME = timedelta(minutes=10)
LEEWAY = 60
LEVELS = {"read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Caller:
    """The one behind a request. Exactly one of App, installation and plain person."""

    account: Account
    app: App | None = None  # authenticated as the App itself
    installation: Installation | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    repository_ids: frozenset[int] | None = None  # a token narrowed to these
    token: str = ""

    @property
    def actor(self) -> Actor:
        """Return the one who changes things."""
        app_id = self.installation.app_id if self.installation else None
        return Actor(self.account, app_id, self.installation)

    @property
    def budget(self) -> str:
        """Key of the rate limit this caller draws on."""
        return f"installation {self.installation.id}" if self.installation else f"account {self.account.id}"

    def sees(self, repository: Repository) -> bool:
        """Return whether a repository exists for this caller."""
        if self.installation is None:
            return self.app is None
        narrowed = self.repository_ids is not None and repository.id not in self.repository_ids
        return not narrowed and reaches(self.installation, repository)

    def may(self, permission: str) -> bool:
        """Return whether an installation has `name:level`, its token and still itself; a person may do everything."""
        name, _, level = permission.partition(":")
        if self.installation is None:
            return True
        granted = (self.permissions, self.installation.permissions)
        return all(LEVELS.get(each.get(name, ""), 0) >= LEVELS[level] for each in granted)

    def require(self, permission: str) -> None:
        """Refuse an installation that lacks `name:level`."""
        if not self.may(permission):
            raise forbidden_to_integration()

    def sees_bypass_of(self, ruleset: Ruleset) -> bool:
        """Return whether the caller is shown who can bypass a ruleset: only those who may change it are."""
        own = ruleset.source_type == "Repository"
        return self.may("administration:write" if own else "organization_administration:write")


class Credentials:
    """Mints and reads installation tokens, and reads all others."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.secret = secrets.token_hex(32)
        self.revoked: set[str] = set()
        self._read: dict[str, dict[str, object]] = {}

    def mint(
        self, installation: Installation, permissions: dict[str, str], repository_ids: list[int] | None
    ) -> tuple[str, str]:
        """Make a token for an installation, and its expiry. Like GitHub's of today it has not the length 40."""
        expires = self.world.clock() + TOKEN_LIFETIME
        claims = {
            "installation": installation.id,
            "expires": int(expires.timestamp()),
            "permissions": permissions,
            "repositories": repository_ids,
            "serial": secrets.token_hex(8),
        }
        body = base64.urlsafe_b64encode(orjson.dumps(claims)).decode().rstrip("=")
        token = f"ghs_{installation.app_id}_{body}.{self._sign(body)}"
        return token, timestamp(expires)

    def revoke(self, installation_id: int) -> None:
        """Refuse every token of an installation that has been used until now."""
        self.revoked |= {token for token, claims in self._read.items() if claims["installation"] == installation_id}

    def identify(self, header: str | None) -> Caller:
        """Return the caller of an `Authorization` header, or refuse with 401."""
        kind, _, token = (header or "").partition(" ")
        if kind.lower() == "basic":
            token = _password(token)
        if not token:
            raise Refusal(401, "Requires authentication")
        if token.startswith("ghs_"):
            return self._installation(token)
        if token.count(".") == 2:
            return self._app(token)
        account = self.world.tokens.get(token)
        if account is None:
            raise Refusal(401, "Bad credentials")
        return Caller(account, token=token)

    def _sign(self, body: str) -> str:
        digest = hmac.new(self.secret.encode(), body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _installation(self, token: str) -> Caller:
        claims = self._read.get(token)
        if claims is None:
            body, _, signature = token.split("_", 2)[-1].partition(".")
            if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
                raise Refusal(401, "Bad credentials")
            claims = self._read[token] = orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        installation = self.world.installations.get(int(str(claims["installation"])))
        expired = self.world.clock().timestamp() >= float(str(claims["expires"]))
        if installation is None or expired or token in self.revoked:
            raise Refusal(401, "Bad credentials")
        if installation.suspended_at:
            raise Refusal(403, "This installation has been suspended")
        granted, chosen = claims["permissions"], claims["repositories"]
        account = self.world.accounts[self.world.apps[installation.app_id].bot_id]
        return Caller(
            account,
            installation=installation,
            permissions=granted if isinstance(granted, dict) else {},
            repository_ids=frozenset(chosen) if isinstance(chosen, list) else None,
            token=token,
        )

    def _app(self, token: str) -> Caller:
        try:
            issuer = str(jwt.decode(token, options={"verify_signature": False}).get("iss", ""))
        except jwt.PyJWTError as error:
            raise Refusal(401, "A JSON web token could not be decoded") from error
        app = self.world.apps.get(int(issuer)) if issuer.isascii() and issuer.isdigit() else None
        if app is None:
            raise Refusal(404, "Integration not found")
        self._check_times(_verified(token, app))
        return Caller(self.world.accounts[app.bot_id], app=app)

    def _check_times(self, claims: dict[str, object]) -> None:
        now = self.world.clock().timestamp()
        expires, issued = claims.get("exp"), claims.get("iat")
        if not isinstance(expires, int | float) or expires <= now:
            raise Refusal(
                401,
                "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the"
                " assertion expires",
            )
        if expires > now + MAX_JWT_LIFETIME.total_seconds() + LEEWAY:
            raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
        if not isinstance(issued, int | float) or issued > now + LEEWAY:
            raise Refusal(
                401,
                "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
            )


def _password(encoded: str) -> str:
    """Return the password of HTTP Basic, or refuse with 401."""
    try:
        return base64.b64decode(encoded, validate=True).decode().rpartition(":")[2]
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Refusal(401, "Bad credentials") from error


def _verified(token: str, app: App) -> dict[str, object]:
    """Return the claims of a token that one of the App's keys signed, or refuse with 401."""
    options: dict[str, object] = {"verify_exp": False, "verify_iat": False, "verify_iss": False}
    for key in (app.public_key or "", *app.further_public_keys):
        try:
            return jwt.decode(token, key, algorithms=["RS256"], options=options)  # type: ignore[arg-type]
        except (jwt.PyJWTError, ValueError):
            continue
    raise Refusal(401, "A JSON web token could not be decoded")
