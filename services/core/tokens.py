"""Random tokens that we issue: session tokens and one-time tokens. Only their SHA-256 is stored."""

import hashlib
import secrets

SESSION_PREFIX = "svc_session_"
_BYTES = 32


def new_session_token() -> str:
    """Return a new session token, a bearer credential."""
    return SESSION_PREFIX + secrets.token_urlsafe(_BYTES)


def new_one_time_token() -> str:
    """Return a new token for a link: 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def token_hash(token: str) -> bytes:
    """Return the stored form of a token, 32 bytes. Its entropy makes a slow hash unnecessary."""
    return hashlib.sha256(token.encode()).digest()
