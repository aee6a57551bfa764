"""Rules of OAuth requests: errors, PKCE, resources, scopes (RFC 6749, 7636, 8628, 8707)."""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from rules import base64url

OFFLINE_ACCESS = "offline_access"
"""The scope by which clients request refresh tokens; every grant has them."""
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class OAuthError(Exception):
    """An error with an OAuth code and a description for developers; `members` are added to the response."""

    def __init__(self, error: str, description: str, **members: int) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.members = members


def is_challenge(challenge: str) -> bool:
    """True if a PKCE challenge can be one of the method S256."""
    return _CHALLENGE.fullmatch(challenge) is not None


def challenge_of(verifier: str) -> str:
    """Return the PKCE challenge of a verifier, by the method S256 (RFC 7636, 4.2)."""
    return base64url.encode(hashlib.sha256(verifier.encode()).digest())


def verifier_matches(verifier: str, challenge: str) -> bool:
    """True if the PKCE verifier belongs to a challenge of the method S256 (RFC 7636, 4.6)."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(challenge_of(verifier).encode(), challenge.encode())


def is_same_resource(given: str, resource: str) -> bool:
    """True if a resource indicator names the resource; case of scheme and host, and a final slash, do not matter."""
    return _canonical(given) == _canonical(resource)


def _canonical(resource: str) -> str:
    parts = urlsplit(resource)
    query = f"?{parts.query}" if "?" in resource else ""
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.removesuffix('/')}{query}" + "#" * (
        "#" in resource
    )


def requested_scopes(scope: str | None, supported: Collection[str]) -> frozenset[str]:
    """Return the scopes of a request that are supported, each write with its read; all of them if it names none.

    Empty if it names unknown scopes only.
    """
    named = frozenset((scope or "").split()) - {OFFLINE_ACCESS}
    return with_reads(named & frozenset(supported), supported) if named else frozenset(supported)


def with_reads(scopes: Iterable[str], supported: Collection[str]) -> frozenset[str]:
    """Return scopes with the read scope of each write scope."""
    chosen = frozenset(scopes)
    reads = {scope.removesuffix(":write") + ":read" for scope in chosen if scope.endswith(":write")}
    return chosen | reads & frozenset(supported)
