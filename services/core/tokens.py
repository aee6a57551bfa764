"""Random tokens that we issue: of sessions, links, OAuth and calendar feeds. Only their SHA-256 is stored."""

import hashlib
import secrets

SESSION_PREFIX = "svc_session_"
OAUTH_CODE_PREFIX = "svc_code_"
REFRESH_PREFIX = "svc_refresh_"
FEED_PREFIX = "svc_feed_"
_BYTES = 32
_BYTES_IN_ADDRESSES = 16


def new_session_token() -> str:
    """Return a new session token, a bearer credential."""
    return SESSION_PREFIX + secrets.token_urlsafe(_BYTES)


def new_oauth_code() -> str:
    """Return a new authorization code."""
    return OAUTH_CODE_PREFIX + secrets.token_urlsafe(_BYTES)


def new_refresh_token() -> str:
    """Return a new refresh token, a bearer credential only for the token endpoint."""
    return REFRESH_PREFIX + secrets.token_urlsafe(_BYTES)


def new_feed_token() -> str:
    """Return a new token for the address of a calendar: 128 random bits, since people copy it."""
    return FEED_PREFIX + secrets.token_urlsafe(_BYTES_IN_ADDRESSES)


def new_one_time_token() -> str:
    """Return a new token for a link: 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def token_hash(token: str) -> bytes:
    """Return the stored form of a token, 32 bytes. Its entropy makes a slow hash unnecessary."""
    return hashlib.sha256(token.encode()).digest()
