"""Session tokens: short-lived JWTs that name a user, an organisation and a sign-in (`sid`).

A token proves who asks; what they may do is looked up on each request, so that a revoked sign-in, a changed role or
a lost membership acts at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

ALGORITHMS = ("ES256", "EdDSA")
TOKEN_TYPE = "session+jwt"  # noqa: S105 - the `typ` header (RFC 8725, 3.11), no secret
_REQUIRED = ("sub", "sid", "iss", "aud", "iat", "exp")


class InvalidTokenError(Exception):
    """The token was not made by us for this service."""


class UnknownKeyError(InvalidTokenError):
    """The token names a key that is not among those given."""


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key with its id, and what every token says of its origin and its audience."""

    kid: str
    algorithm: str
    private_key: str
    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """What a verified token says. `expires_at` is in Unix seconds, and is for the caller to judge."""

    user_id: str
    organization_id: str | None
    session_id: str
    expires_at: int
    support: bool


def mint_session_jwt(
    signer: Signer,
    *,
    user: str,
    organization: str | None,
    sid: str,
    ttl: timedelta,
    now: datetime,
    support: bool = False,
) -> str:
    """Return a signed token of `user` in `organization`, valid from `now` for `ttl`."""
    issued = int(now.timestamp())
    claims: dict[str, Any] = {
        "sub": user,
        "sid": sid,
        "iss": signer.issuer,
        "aud": signer.audience,
        "iat": issued,
        "exp": issued + int(ttl.total_seconds()),
    }
    if organization is not None:
        claims["org"] = organization
    if support:
        claims["act"] = {"sub": "support"}
    headers = {"kid": signer.kid, "typ": TOKEN_TYPE}
    return jwt.encode(claims, signer.private_key, algorithm=signer.algorithm, headers=headers)


def verify_session_jwt(token: str, keys: Mapping[str, tuple[str, Any]], *, issuer: str, audience: str) -> SessionClaims:
    """Return the claims of a token signed by one of `keys` (kid → algorithm and public key).

    Raises UnknownKeyError or InvalidTokenError. The time of expiry is not judged here: the database's clock does.
    """
    try:
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        if header.get("typ") != TOKEN_TYPE or not isinstance(kid, str):
            raise InvalidTokenError("not a session token")
        if kid not in keys:
            raise UnknownKeyError(kid)
        algorithm, key = keys[kid]
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=audience,
            options={"require": list(_REQUIRED), "verify_exp": False, "verify_iat": False, "strict_aud": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise InvalidTokenError("the token does not verify") from error
    return _claims(claims)


def _claims(claims: Mapping[str, Any]) -> SessionClaims:
    organization = claims.get("org")
    texts = (claims["sub"], claims["sid"], organization or "")
    if not all(isinstance(text, str) and "\0" not in text for text in texts) or not isinstance(claims["exp"], int):
        raise InvalidTokenError("a claim has a wrong type")
    return SessionClaims(claims["sub"], organization, claims["sid"], claims["exp"], support="act" in claims)


def new_key_pair() -> tuple[str, str]:
    """Return a fresh ES256 key pair as PEM: private, public."""
    private = ec.generate_private_key(ec.SECP256R1())
    return (
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode(),
    )
