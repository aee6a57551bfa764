"""Access tokens: short-lived JWTs that name a user, an organisation and a session (`sid`).

A token only authenticates. What the user may do is looked up on each request, so a revoked session, a changed role or
a lost membership takes effect at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

ALGORITHMS = ("ES256", "EdDSA")
TOKEN_TYPE = "session+jwt"  # noqa: S105 - the `typ` header (RFC 8725, 3.11), not a secret
_MAX_EXPIRY = 253_402_300_799
"""The last second of the year 9999."""
_TEXTS = ("sub", "sid", "org")
_REQUIRED = ("sub", "sid", "iss", "aud", "iat", "exp")


class InvalidTokenError(Exception):
    """The token was not issued by us for this service."""


class UnknownKeyError(InvalidTokenError):
    """The `kid` of the token is unknown."""


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key with its id, and the issuer and audience of the tokens it signs."""

    kid: str
    algorithm: str
    private_key: str
    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class AccessTokenClaims:
    """The claims of a verified token. `expires_at` is in Unix seconds; the caller checks it."""

    user_id: str
    organization_id: str | None
    session_id: str
    expires_at: int
    support: bool


def issue_access_token(
    signer: Signer,
    *,
    user: str,
    organization: str | None,
    sid: str,
    lifetime: timedelta,
    now: datetime,
    support: bool = False,
) -> str:
    """Return a signed token for `user` in `organization`, valid from `now` for `lifetime`, in whole seconds."""
    issued = int(now.timestamp())
    claims: dict[str, Any] = {
        "sub": user,
        "sid": sid,
        "iss": signer.issuer,
        "aud": signer.audience,
        "iat": issued,
        "exp": issued + int(lifetime.total_seconds()),
    }
    if organization is not None:
        claims["org"] = organization
    if support:
        claims["act"] = {"sub": "support"}
    headers = {"kid": signer.kid, "typ": TOKEN_TYPE}
    return jwt.encode(claims, signer.private_key, algorithm=signer.algorithm, headers=headers)


def verify_access_token(
    token: str, keys: Mapping[str, tuple[str, Any]], *, issuer: str, audience: str
) -> AccessTokenClaims:
    """Return the claims of a token of a session; raise as `verify_token`."""
    claims = verify_token(
        token, keys, token_type=TOKEN_TYPE, issuer=issuer, audience=audience, required=_REQUIRED, texts=_TEXTS
    )
    return AccessTokenClaims(claims["sub"], claims.get("org"), claims["sid"], claims["exp"], support="act" in claims)


def verify_token(
    token: str,
    keys: Mapping[str, tuple[str, Any]],
    *,
    token_type: str,
    issuer: str,
    audience: str,
    required: Iterable[str],
    texts: Iterable[str],
) -> dict[str, Any]:
    """Return the claims of a token of this type that is signed by one of `keys` (kid → algorithm and public key).

    It has the `required` claims, and those of `texts` that it has are strings. Raise UnknownKeyError or
    InvalidTokenError. The caller checks the expiry, by the database's clock.
    """
    try:
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        if header.get("typ") != token_type or not isinstance(kid, str):
            raise InvalidTokenError(f"not a token of type {token_type}")
        if kid not in keys:
            raise UnknownKeyError(kid)
        algorithm, key = keys[kid]
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=audience,
            options={"require": list(required), "verify_exp": False, "verify_iat": False, "strict_aud": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise InvalidTokenError("the token does not verify") from error
    found = [claims[name] for name in texts if claims.get(name) is not None]
    if not all(isinstance(text, str) and "\0" not in text for text in found):
        raise InvalidTokenError("a claim has the wrong type")
    if not isinstance(claims["exp"], int) or not 0 <= claims["exp"] <= _MAX_EXPIRY:
        raise InvalidTokenError("the expiry is not an instant")
    return claims


def new_key_pair() -> tuple[str, str]:
    """Return a new ES256 key pair in PEM: private, public."""
    private = ec.generate_private_key(ec.SECP256R1())
    return (
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode(),
    )
