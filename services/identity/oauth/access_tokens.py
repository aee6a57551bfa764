"""Access tokens of OAuth grants: JWTs by RFC 9068 that name a grant (`gid`) and the resource they are for (`aud`).

They are signed with the keys of session JWTs, and differ from those by type and audience: neither is accepted in place
of the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt

from models.oauth import OAuthGrant
from rules.ids import new_id
from services.identity.access_tokens import Signer, verify_token

TOKEN_TYPE = "at+jwt"  # noqa: S105 - the `typ` header (RFC 9068, 2.1), not a secret
LIFETIME = timedelta(hours=1)
_TEXTS = ("sub", "org", "client_id", "gid", "scope")
_REQUIRED = ("iss", "aud", "iat", "exp", "jti", *_TEXTS)


@dataclass(frozen=True, slots=True)
class GrantTokenClaims:
    """The claims of a verified token. `expires_at` is in Unix seconds; the caller checks it."""

    grant_id: str
    user_id: str
    organization_id: str
    client_id: str
    scopes: frozenset[str]
    expires_at: int


def issue_grant_token(
    signer: Signer, grant: OAuthGrant, scopes: Iterable[str], *, now: datetime, lifetime: timedelta = LIFETIME
) -> str:
    """Return a signed token of a grant, valid from `now`; `signer.audience` does not matter."""
    issued = int(now.timestamp())
    claims = {
        "iss": signer.issuer,
        "aud": grant.resource,
        "sub": grant.user_id,
        "org": grant.organization_id,
        "client_id": grant.client_id,
        "gid": grant.id,
        "scope": " ".join(sorted(scopes)),
        "iat": issued,
        "exp": issued + int(lifetime.total_seconds()),
        "jti": new_id("tok"),
    }
    headers = {"kid": signer.kid, "typ": TOKEN_TYPE}
    return jwt.encode(claims, signer.private_key, algorithm=signer.algorithm, headers=headers)


def verify_grant_token(
    token: str, keys: Mapping[str, tuple[str, Any]], *, issuer: str, audience: str
) -> GrantTokenClaims:
    """Return the claims of a token of a grant for `audience`; raise as `verify_token`."""
    claims = verify_token(
        token, keys, token_type=TOKEN_TYPE, issuer=issuer, audience=audience, required=_REQUIRED, texts=_TEXTS
    )
    scopes = frozenset(claims["scope"].split())
    return GrantTokenClaims(claims["gid"], claims["sub"], claims["org"], claims["client_id"], scopes, claims["exp"])
