"""The App's own token (a JWT) and the installation tokens that it buys, kept until shortly before they end."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from integrations.github.answers import read_object, refusal, server_time
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.settings import GitHubSettings
from integrations.github.sockets import STOPWATCH
from integrations.github.transport import Answer, Bearer, Request, Transport, unavailable
from integrations.github.values import moment

_BACKDATED = 60
"""Seconds: GitHub advises it against clocks that run ahead."""
_LIFE = 540
"""Seconds from now; GitHub takes at most 600."""
_RENEWED = 60
"""Seconds before its end at which a JWT is made anew."""
_MARGIN = 300.0
"""Seconds before its end at which an installation token is not used any more."""
_TOLERATED_SKEW = 20.0


@dataclass(frozen=True, slots=True)
class _Kept:
    bearer: Bearer
    ends: float
    permissions: Mapping[str, str] = field(default_factory=dict)
    """What it may do; it learns of nothing that is granted later."""


_NONE = _Kept(Bearer(""), 0.0)


@lru_cache(maxsize=1)
def _read_key(pem: str) -> RSAPrivateKey:
    """Read the App's key; checking it takes 40 ms, and whoever builds a client anew has the same one."""
    key = load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError("the App's private key must be an RSA key in PEM")
    return key


class AppTokens:
    """Makes the App's JWT (RS256), cached for most of its life; follows GitHub's clock once it differs from ours."""

    def __init__(self, settings: GitHubSettings, clock: Callable[[], float]) -> None:
        self._key = _read_key(settings.private_key)
        self._issuer = str(settings.app_id)
        self._clock = clock
        self._skew = 0.0
        self._lock = threading.Lock()
        self._kept = _NONE

    def get(self) -> Bearer:
        """Return a JWT that is good for at least another minute."""
        with self._lock:
            now = self._clock() + self._skew
            if now >= self._kept.ends - _RENEWED:
                claims = {"iat": int(now) - _BACKDATED, "exp": int(now) + _LIFE, "iss": self._issuer}
                self._kept = _Kept(Bearer(jwt.encode(claims, self._key, algorithm="RS256")), now + _LIFE)
            return self._kept.bearer

    def learn_skew(self, answer: Answer) -> bool:
        """Take GitHub's clock for ours after a refusal; tells whether they differed enough to try again."""
        if "date" not in answer.headers:
            return False
        skew = server_time(answer.headers) - self._clock()
        with self._lock:
            if abs(skew - self._skew) <= _TOLERATED_SKEW:
                return False
            self._skew, self._kept = skew, _NONE
            return True


class AppCalls:
    """Calls made as the App itself rather than for an installation."""

    def __init__(self, settings: GitHubSettings, transport: Transport, tokens: AppTokens) -> None:
        self._base = settings.api_url.rstrip("/")
        self._transport = transport
        self._tokens = tokens

    def send(self, method: str, path: str, *, body: object = None) -> Answer:
        """Return GitHub's answer, whatever its status; a refused JWT is made anew once if the clocks differ.

        Every call made here may be repeated: buying a second token spoils nothing.
        """
        url = path if path.startswith("http") else self._base + path
        request = Request(method, url, body=body, safe=True)
        with self._transport.deadline():
            answer = self._transport.send(request, self._tokens.get())
            if answer.status == 401 and self._tokens.learn_skew(answer):
                answer = self._transport.send(request, self._tokens.get())
            return answer


class InstallationToken:
    """One installation's token: bought when first needed, shared by threads, replaced before it ends or when refused.

    GitHub promises nothing about its shape or length, so neither does this.
    """

    def __init__(self, installation_id: int, calls: AppCalls, clock: Callable[[], float]) -> None:
        self._path = f"/app/installations/{installation_id}/access_tokens"
        self._calls = calls
        self._clock = clock
        self._lock = threading.Lock()
        self._kept = _NONE
        self._accepted: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        """Permissions asked for and granted, whose difference has been bought off already."""

    def get(self) -> Bearer:
        """Return a token good for some minutes; raises `GitHubError`, `installation_removed` among others.

        Only inside a call's deadline, which waiting for another thread's purchase counts against too.
        """
        kept = self._kept
        if self._clock() < kept.ends - _MARGIN:
            return kept.bearer
        if not self._lock.acquire(timeout=STOPWATCH.get().left()):
            raise unavailable("did not grant a token in time", maybe_applied=False)
        try:
            if self._clock() >= self._kept.ends - _MARGIN:
                self._kept = self._buy()
            return self._kept.bearer
        finally:
            self._lock.release()

    def drop(self, refused: Bearer) -> None:
        """Forget this token, unless another thread has already replaced it."""
        with self._lock:
            if self._kept.bearer is refused:
                self._kept = _NONE

    def forget(self) -> None:
        """Buy another one for the next call: a token keeps the permissions that the App had when it was bought."""
        with self._lock:
            self._kept = _NONE

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Forget a token that was bought while the installation had other permissions than these.

        Once for each difference: GitHub may spell what it grants to a token in another way than what it tells of the
        installation, and that must not cost a purchase each time.
        """
        with self._lock:
            difference = (permissions, self._kept.permissions)
            if self._kept.permissions != permissions and difference != self._accepted:
                self._kept, self._accepted = _NONE, difference

    def _buy(self) -> _Kept:
        asked = self._clock()
        answer = self._calls.send("POST", self._path)
        if answer.status in {401, 404, 410}:
            raise _removed(answer)
        payload = read_object(answer)
        value, ends = payload.get("token"), moment(payload.get("expires_at"))
        if not isinstance(value, str) or not value or ends is None:
            raise unavailable("granted no readable token", maybe_applied=False, status=answer.status)
        return _Kept(Bearer(value), asked + ends.timestamp() - server_time(answer.headers), _permissions(payload))


def _permissions(payload: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(level) for name, level in (payload.get("permissions") or {}).items()}


def _removed(answer: Answer) -> GitHubError:
    if answer.status == 401:
        said = refusal(answer).message
        return GitHubError(ErrorKind.APP_REFUSED, f"GitHub does not accept the App: {said}", status=401)
    return GitHubError(ErrorKind.INSTALLATION_REMOVED, "The App is not installed there any more", status=answer.status)
