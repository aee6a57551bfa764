"""Session tokens on the way in: verified once per token and process, by keys that the database holds.

The keys are read again when a token names an unknown one, and every minute, so that one that was taken away because
somebody else got hold of it is soon good for nothing anywhere.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key

from services.core.read_context import Reader
from services.identity.access_tokens import (
    ALGORITHMS,
    InvalidTokenError,
    SessionClaims,
    UnknownKeyError,
    verify_session_jwt,
)

_SECONDS_BETWEEN_LOADS = 0.2
_SECONDS_KEPT = 60.0
_MOST_TOKENS = 10_000
_LONGEST_TOKEN = 4096
_KEYS = "SELECT kid, algorithm, public_key FROM signing_keys"


class TokenVerifier:
    """Verifies session tokens. Only what cannot change is remembered: that a token is ours, and what it says."""

    def __init__(
        self, reads: Reader, *, issuer: str, audience: str, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._reads = reads
        self._issuer = issuer
        self._audience = audience
        self._seconds = seconds
        self._keys: dict[str, tuple[str, Any]] = {}
        self._loaded_at = -_SECONDS_KEPT
        self._loading = asyncio.Lock()
        self._verified: dict[bytes, SessionClaims] = {}

    async def verify(self, token: str) -> SessionClaims:
        """Return what the token says; raises InvalidTokenError. Whether it has expired is not judged here."""
        if len(token) > _LONGEST_TOKEN:
            raise InvalidTokenError("too long")
        if self._seconds() - self._loaded_at > _SECONDS_KEPT:
            await self._reload()
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = await self._verify(token)
            if len(self._verified) >= _MOST_TOKENS:
                self._verified.clear()
            self._verified[digest] = claims
        return claims

    async def _verify(self, token: str) -> SessionClaims:
        try:
            return verify_session_jwt(token, self._keys, issuer=self._issuer, audience=self._audience)
        except UnknownKeyError:
            await self._reload()
            return verify_session_jwt(token, self._keys, issuer=self._issuer, audience=self._audience)

    async def _reload(self) -> None:
        """Read the keys again, as they are after this was asked for.

        Anybody can invent a key id: all who wait are served by one reading, and there are five in a second at most.
        """
        asked_at = self._seconds()
        async with self._loading:
            if self._loaded_at >= asked_at:
                return
            await asyncio.sleep(self._loaded_at + _SECONDS_BETWEEN_LOADS - self._seconds())
            begun_at = self._seconds()
            rows = await self._reads.fetch(_KEYS)
            known = self._keys
            self._keys = {
                row["kid"]: (row["algorithm"], load_pem_public_key(row["public_key"].encode()))
                for row in rows
                if row["algorithm"] in ALGORITHMS
            }
            if known.keys() - self._keys.keys():
                self._verified.clear()
            self._loaded_at = begun_at
