"""Minting and verifying session tokens."""

from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from services.identity.access_tokens import (
    InvalidTokenError,
    Signer,
    UnknownKeyError,
    issue_access_token,
    new_key_pair,
    verify_access_token,
)
from services.identity.oauth.access_tokens import verify_grant_token

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
HERE = {"issuer": "https://app.example", "audience": "https://api.example"}


def ed25519_pair() -> tuple[str, str]:
    private = ed25519.Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode(), public.decode()


@pytest.mark.parametrize(("algorithm", "pair"), [("ES256", new_key_pair()), ("EdDSA", ed25519_pair())])
def test_access_token_carries_the_claims_of_its_session(algorithm: str, pair: tuple[str, str]) -> None:
    signer = Signer("kid-1", algorithm, pair[0], HERE["issuer"], HERE["audience"])
    token = issue_access_token(
        signer, user="usr_1", organization="org_1", sid="ses_1", lifetime=timedelta(minutes=15), now=NOW
    )
    claims = verify_access_token(token, {"kid-1": (algorithm, pair[1])}, **HERE)
    assert (claims.user_id, claims.organization_id, claims.session_id, claims.support) == (
        "usr_1",
        "org_1",
        "ses_1",
        False,
    )
    assert claims.expires_at == int(NOW.timestamp()) + 900
    with pytest.raises(UnknownKeyError):
        verify_access_token(token, {"kid-2": (algorithm, pair[1])}, **HERE)


@pytest.mark.parametrize("token_type", ["JWT", "at+JWT", "", None])
def test_token_of_a_grant_is_refused_when_its_type_is_another(token_type: str | None) -> None:
    """All its claims are right: only its type distinguishes it from the token of a session."""
    private, public = new_key_pair()
    texts = {"sub": "usr_1", "org": "org_1", "client_id": "cli", "gid": "ogr_1", "scope": "freeze:read", "jti": "tok_1"}
    times = {"iat": int(NOW.timestamp()), "exp": int(NOW.timestamp()) + 60}
    claims = {**texts, **times, "iss": HERE["issuer"], "aud": HERE["audience"]}

    def verify(given: str | None) -> None:
        token = jwt.encode(claims, private, algorithm="ES256", headers={"kid": "kid-1", "typ": given})
        verify_grant_token(token, {"kid-1": ("ES256", public)}, **HERE)

    verify("at+jwt")
    with pytest.raises(InvalidTokenError):
        verify(token_type)
