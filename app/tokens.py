"""Session tokens on the way in: verified once per token and process, by keys that the database holds."""

import asyncio
import hashlib
import time
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key

from services.reads import Reader
from services.sessions import ALGORITHMS, InvalidTokenError, SessionClaims, UnknownKeyError, verify_session_jwt

_RELOAD_SECONDS = 3.0
_MOST_TOKENS = 10_000
_LONGEST_TOKEN = 4096
_KEYS = "SELECT kid, algorithm, public_key FROM signing_keys"


class TokenVerifier:
    """Verifies session tokens. Only what cannot change is remembered: that a token is ours, and what it says."""

    def __init__(self, reads: Reader, *, issuer: str, audience: str) -> None:
        self._reads = reads
        self._issuer = issuer
        self._audience = audience
        self._keys: dict[str, tuple[str, Any]] = {}
        self._loaded_at = -_RELOAD_SECONDS
        self._loading = asyncio.Lock()
        self._verified: dict[bytes, SessionClaims] = {}

    async def verify(self, token: str) -> SessionClaims:
        """Return what the token says; raises InvalidTokenError. Whether it has expired is not judged here."""
        if len(token) > _LONGEST_TOKEN:
            raise InvalidTokenError("too long")
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
        """Read the keys again, but no more often than every few seconds: anybody can invent a key id."""
        async with self._loading:
            if time.monotonic() - self._loaded_at < _RELOAD_SECONDS:
                return
            rows = await self._reads.fetch(_KEYS)
            self._keys = {
                row["kid"]: (row["algorithm"], load_pem_public_key(row["public_key"].encode()))
                for row in rows
                if row["algorithm"] in ALGORITHMS
            }
            self._loaded_at = time.monotonic()
