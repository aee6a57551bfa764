"""Verification of access tokens (JWT), with the public keys of the database and a cache per process.

Keys are reloaded every minute and when a token has an unknown `kid`. So a key that is removed because it leaked stops
verifying everywhere within a minute.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from services.core.read_context import Reader
from services.identity.access_tokens import InvalidTokenError, UnknownKeyError
from services.identity.signing_keys import PUBLISHED_KEYS, verification_keys

_MIN_RELOAD_INTERVAL_SECONDS = 0.2
_KEY_LIFETIME_SECONDS = 60.0
_MAX_CACHED_TOKENS = 10_000
_MAX_TOKEN_LENGTH = 4096


Claims = TypeVar("Claims")


class TokenVerifier(Generic[Claims]):
    """Verifies tokens of one kind. Caches only what cannot change: that a signature is valid, and the claims."""

    def __init__(
        self,
        reads: Reader,
        verify: Callable[[str, Mapping[str, tuple[str, Any]]], Claims],
        *,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reads = reads
        self._verify_with = verify
        self._seconds = seconds
        self._keys: dict[str, tuple[str, Any]] = {}
        self._loaded_at = -_KEY_LIFETIME_SECONDS
        self._loading = asyncio.Lock()
        self._verified: dict[bytes, Claims] = {}

    async def verify(self, token: str) -> Claims:
        """Return the claims of a token. Raise InvalidTokenError if it is not ours; expiry is checked by the caller."""
        if len(token) > _MAX_TOKEN_LENGTH:
            raise InvalidTokenError("too long")
        if self._seconds() - self._loaded_at > _KEY_LIFETIME_SECONDS:
            await self._reload()
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = await self._verify(token)
            if len(self._verified) >= _MAX_CACHED_TOKENS:
                self._verified.clear()
            self._verified[digest] = claims
        return claims

    async def _verify(self, token: str) -> Claims:
        try:
            return self._verify_with(token, self._keys)
        except UnknownKeyError:
            await self._reload()
            return self._verify_with(token, self._keys)

    async def _reload(self) -> None:
        """Reload the keys; the result is at least as new as the call.

        Anyone can invent a key id. So all waiting callers share one reload, and there are at most five per second.
        """
        called_at = self._seconds()
        async with self._loading:
            if self._loaded_at >= called_at:
                return
            await asyncio.sleep(self._loaded_at + _MIN_RELOAD_INTERVAL_SECONDS - self._seconds())
            started_at = self._seconds()
            rows = await self._reads.fetch(PUBLISHED_KEYS)
            previous = self._keys
            self._keys = verification_keys(rows)
            if previous.keys() - self._keys.keys():
                self._verified.clear()
            self._loaded_at = started_at
