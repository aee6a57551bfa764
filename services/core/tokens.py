"""Random secrets that we hand out: session tokens, and tokens of one use; only their SHA-256 is kept."""

import hashlib
import secrets

SESSION_PREFIX = "svc_session_"
_BYTES = 32


def new_session_token() -> str:
    """Return a fresh session token; whoever has it is signed in."""
    return SESSION_PREFIX + secrets.token_urlsafe(_BYTES)


def new_one_time_token() -> str:
    """Return a fresh token for a mailed link or an address: 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def token_hash(token: str) -> bytes:
    """Return what is kept of a token, 32 bytes. Its entropy makes a slow hash pointless."""
    return hashlib.sha256(token.encode()).digest()
