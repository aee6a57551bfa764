"""The App's own token (a JWT) and installation tokens, cached until shortly before they expire."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.responses import error_of, read_object, server_time
from integrations.github.settings import GitHubSettings
from integrations.github.sockets import CALL_DEADLINE
from integrations.github.transport import Bearer, Request, Response, Transport, unavailable
from integrations.github.values import parse_instant

_BACKDATE_SECONDS = 60
"""GitHub recommends it against clocks that are ahead."""
_LIFETIME_SECONDS = 540
"""GitHub accepts at most 600."""
_RENEW_BEFORE_SECONDS = 60
"""Before its expiry a JWT is renewed."""
_EXPIRY_MARGIN_SECONDS = 300.0
"""Before its expiry an installation token is no longer used."""
_MAX_SKEW_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _CachedToken:
    bearer: Bearer
    expires_at: float
    permissions: Mapping[str, str] = field(default_factory=dict)
    """Permissions at creation; those granted later are not included."""


_NONE = _CachedToken(Bearer(""), 0.0)


@lru_cache(maxsize=1)
def read_key(pem: str) -> RSAPrivateKey:
    """Parse the App's key; raise ValueError, TypeError or UnsupportedAlgorithm if it is no RSA key.

    Cached, because checking a key takes 40 ms: the configuration reads it, and each new client.
    """
    key = load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError("the App's private key must be an RSA key in PEM")
    return key


class AppTokens:
    """Creates the App's JWT (RS256), cached for most of its lifetime; adjusts to GitHub's clock if it differs."""

    def __init__(self, settings: GitHubSettings, clock: Callable[[], float]) -> None:
        self._key = read_key(settings.private_key)
        self._issuer = str(settings.app_id)
        self._clock = clock
        self._skew = 0.0
        self._lock = threading.Lock()
        self._cached = _NONE

    def get(self) -> Bearer:
        """Return a JWT that is valid for at least another minute."""
        with self._lock:
            now = self._clock() + self._skew
            if now >= self._cached.expires_at - _RENEW_BEFORE_SECONDS:
                claims = {"iat": int(now) - _BACKDATE_SECONDS, "exp": int(now) + _LIFETIME_SECONDS, "iss": self._issuer}
                self._cached = _CachedToken(
                    Bearer(jwt.encode(claims, self._key, algorithm="RS256")), now + _LIFETIME_SECONDS
                )
            return self._cached.bearer

    def learn_skew(self, response: Response) -> bool:
        """Use GitHub's clock after a rejection; return True if the clocks differed enough to try again."""
        if "date" not in response.headers:
            return False
        skew = server_time(response.headers) - self._clock()
        with self._lock:
            if abs(skew - self._skew) <= _MAX_SKEW_SECONDS:
                return False
            self._skew, self._cached = skew, _NONE
            return True


class AppCalls:
    """Calls with the App's own token."""

    def __init__(self, settings: GitHubSettings, transport: Transport, tokens: AppTokens) -> None:
        self._base = settings.api_url.rstrip("/")
        self._transport = transport
        self._tokens = tokens

    def send(self, method: str, path: str, *, body: object = None) -> Response:
        """Return the response, whatever its status; a rejected JWT is renewed once if the clocks differ.

        All calls with this token may be repeated: creating a second installation token does no harm.
        """
        request = Request(method, self._base + path, body=body, safe=True)
        with self._transport.deadline():
            response = self._transport.send(request, self._tokens.get())
            if response.status == 401 and self._tokens.learn_skew(response):
                response = self._transport.send(request, self._tokens.get())
            return response


class InstallationToken:
    """An installation's token: created on first use, shared by threads, renewed before it expires or when rejected.

    GitHub guarantees neither its format nor its length.
    """

    def __init__(self, installation_id: int, calls: AppCalls, clock: Callable[[], float]) -> None:
        self._path = f"/app/installations/{installation_id}/access_tokens"
        self._calls = calls
        self._clock = clock
        self._lock = threading.Lock()
        self._cached = _NONE
        self._accepted: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        """Permissions requested and granted for which a new token has already been created."""

    def get(self) -> Bearer:
        """Return a token that is valid for some minutes. Raise `GitHubError`, such as `installation_suspended`.

        Requires a call's deadline, which also bounds the wait for another thread that creates the token.
        """
        cached = self._cached
        if self._clock() < cached.expires_at - _EXPIRY_MARGIN_SECONDS:
            return cached.bearer
        if not self._lock.acquire(timeout=CALL_DEADLINE.get().remaining()):
            raise unavailable("did not issue a token in time", maybe_applied=False)
        try:
            if self._clock() >= self._cached.expires_at - _EXPIRY_MARGIN_SECONDS:
                self._cached = self._create()
            return self._cached.bearer
        finally:
            self._lock.release()

    def discard_refused(self, refused: Bearer) -> None:
        """Discard a token that GitHub refused, unless another thread has replaced it already."""
        with self._lock:
            if self._cached.bearer is refused:
                self._cached = _NONE

    def discard(self) -> None:
        """Have the next call create a new token: a token keeps the permissions that the App had at its creation."""
        with self._lock:
            self._cached = _NONE

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Discard a token that was created while the installation had other permissions than these.

        Only once for each difference, because GitHub may list the permissions of a token and of its installation
        differently, and that must not create a token each time.
        """
        with self._lock:
            difference = (permissions, self._cached.permissions)
            if self._cached.permissions != permissions and difference != self._accepted:
                self._cached, self._accepted = _NONE, difference

    def _create(self) -> _CachedToken:
        requested_at = self._clock()
        response = self._calls.send("POST", self._path)
        if response.status in {401, 404, 410}:
            raise _removed(response)
        payload = read_object(response)
        value, expires_at = payload.get("token"), parse_instant(payload.get("expires_at"))
        if not isinstance(value, str) or not value or expires_at is None:
            raise unavailable("issued no readable token", maybe_applied=False, status=response.status)
        return _CachedToken(
            Bearer(value), requested_at + expires_at.timestamp() - server_time(response.headers), _permissions(payload)
        )


def _permissions(payload: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(level) for name, level in (payload.get("permissions") or {}).items()}


def _removed(response: Response) -> GitHubError:
    if response.status == 401:
        message = error_of(response).message
        return GitHubError(ErrorKind.APP_REFUSED, f"GitHub does not accept the App: {message}", status=401)
    return GitHubError(ErrorKind.INSTALLATION_REMOVED, "The App is no longer installed there", status=response.status)
