"""Attacks on identity by what is sent: forged tokens, keys that want more, bodies that set what they may not.

What attackers do with sessions is in `test_session_attacks.py`, with mailed links in `test_link_attacks.py`; where
secrets could turn up, in `test_secrets.py`.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import select

from models.api_keys import ApiKey, ApiKeySecret
from models.organizations import SigningKey
from schemas.contract import Operation, load_contract, resolve
from services.core.encryption import decrypt
from services.identity.access_tokens import TOKEN_TYPE
from services.identity.signing_keys import USE
from tests import factories
from tests.factories import SECRET_KEY
from tests.harness.accounts import AccountFixture, ask, code

CONTRACT = load_contract()
INVALID = (401, "invalid_token")
GOOD_KEY = {"name": "A key", "scopes": ["freeze:read"], "expiresAt": None}


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class KeyPair(NamedTuple):
    """A key that signs."""

    kid: str
    private_key: str


class TestForgedTokens:
    @pytest.fixture
    def claims(self, accounts: AccountFixture) -> dict[str, Any]:
        return dict(jwt.decode(accounts.jwt, options={"verify_signature": False}))

    @pytest.fixture
    def ours(self, accounts: AccountFixture) -> KeyPair:
        """Return the key that really signs: its holder can sign anything, and still not every token is accepted."""
        kid = jwt.get_unverified_header(accounts.jwt)["kid"]
        encrypted = accounts.session.get_one(SigningKey, kid).encrypted_private_key
        return KeyPair(kid, decrypt(SECRET_KEY.encode(), USE, kid, encrypted or b"").decode())

    def sign(self, claims: dict[str, Any], key: Any, algorithm: str = "ES256", **head: Any) -> str:
        return jwt.encode(claims, key, algorithm=algorithm, headers={"typ": TOKEN_TYPE, **head})

    def refused(self, accounts: AccountFixture, token: str) -> None:
        assert code(ask(accounts.http, "GET", "/v1/onboarding", token)) == INVALID, token

    def test_unmodified_token_is_accepted(
        self, accounts: AccountFixture, claims: dict[str, Any], ours: KeyPair
    ) -> None:
        again = self.sign(claims, ours.private_key, kid=ours.kid)
        for token in (accounts.jwt, again):
            assert code(ask(accounts.http, "GET", "/v1/onboarding", token)) == (200, None)

    def test_token_without_a_signature_is_refused(self, accounts: AccountFixture) -> None:
        for algorithm in ("none", "None", "NONE", "", None, "HS256", "ES256"):
            head, body, signature = accounts.jwt.split(".")
            kid = jwt.get_unverified_header(accounts.jwt)["kid"]
            fresh = part({"alg": algorithm, "typ": TOKEN_TYPE, "kid": kid})
            for token in (
                f"{fresh}.{body}.",
                f"{fresh}.{body}",
                f"{head}.{body}.",
                f"{head}..{signature}",
                f"{head}.{body}",
            ):
                self.refused(accounts, token)

    def test_token_signed_with_public_material_is_refused(
        self, accounts: AccountFixture, claims: dict[str, Any]
    ) -> None:
        published = accounts.http.get("/.well-known/jwks.json")
        [key] = [
            one for one in published.json()["keys"] if one["kid"] == jwt.get_unverified_header(accounts.jwt)["kid"]
        ]
        assert "d" not in key
        pem = accounts.session.get_one(SigningKey, key["kid"]).public_key
        for secret in (pem, pem.strip(), key["x"], key["x"] + key["y"], json.dumps(key), published.text, key["kid"]):
            head = part({"alg": "HS256", "typ": TOKEN_TYPE, "kid": key["kid"]})
            signed = jwt.api_jws.PyJWS().get_algorithm_by_name("HS256")
            signature = signed.sign(f"{head}.{part(claims)}".encode(), secret.encode())
            mark = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
            self.refused(accounts, f"{head}.{part(claims)}.{mark}")

    @pytest.mark.parametrize(
        "head",
        [
            {},
            {"kid": "x' UNION SELECT 'x"},
            {"kid": "somebody-elses", "jku": "https://elsewhere.example/jwks.json"},
            {"jku": "https://elsewhere.example/jwks.json"},
            {"x5u": "https://elsewhere.example/cert.pem"},
        ],
        ids=str,
    )
    def test_token_header_cannot_supply_another_key(
        self, accounts: AccountFixture, claims: dict[str, Any], head: dict[str, Any]
    ) -> None:
        own = ec.generate_private_key(ec.SECP256R1())
        pem = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        jwk = jwt.algorithms.ECAlgorithm.to_jwk(own.public_key(), as_dict=True)
        kid = {"kid": jwt.get_unverified_header(accounts.jwt)["kid"]}
        self.refused(accounts, self.sign(claims, pem, **{**kid, **head}))
        self.refused(accounts, self.sign(claims, pem, **{**kid, **head, "jwk": jwk}))

    @pytest.mark.parametrize(
        "changes",
        [
            {"aud": "https://elsewhere.example"},
            {"aud": [factories.AUDIENCE, "https://elsewhere.example"]},
            {"iss": "https://elsewhere.example"},
            {"iss": factories.ISSUER + "/"},
            {"sub": "usr_somebody_else"},
            {"sid": "ses_unknown"},
            {"sid": "a\0b"},
            {"sid": 7},
            {"org": 7},
            {"org": "org_somebody_elses"},
            {"exp": 1e300},
            {"exp": 10**30},
            {"exp": -1},
            {"exp": "never"},
            {"iss": ""},
            {"nbf": 4102444800},
            *({name: None} for name in ("sub", "sid", "iss", "aud", "exp", "iat")),
        ],
        ids=str,
    )
    def test_token_with_other_claims_is_refused_even_with_the_right_key(
        self, accounts: AccountFixture, claims: dict[str, Any], ours: KeyPair, changes: dict[str, Any]
    ) -> None:
        wrong = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        self.refused(accounts, self.sign(wrong, ours.private_key, kid=ours.kid))

    @pytest.mark.parametrize("head", [{"typ": "JWT"}, {"typ": "at+jwt"}, {"typ": None}, {"crit": ["exp"]}], ids=str)
    def test_token_of_another_type_is_refused(
        self, accounts: AccountFixture, claims: dict[str, Any], ours: KeyPair, head: dict[str, Any]
    ) -> None:
        self.refused(accounts, self.sign(claims, ours.private_key, **{"kid": ours.kid, **head}))

    def test_access_token_is_read_only_from_the_authorization_header(self, accounts: AccountFixture) -> None:
        assert code(accounts.http.get("/v1/onboarding", params={"access_token": accounts.jwt})) == (
            401,
            "missing_credentials",
        )
        cookie = {"Cookie": f"session={accounts.jwt}; access_token={accounts.jwt}"}
        assert code(accounts.http.get("/v1/onboarding", headers=cookie)) == (401, "missing_credentials")
        assert code(accounts.http.get("/api/auth/sessions", headers=cookie)) == INVALID

    def test_api_key_in_a_cookie_opens_nothing_and_identifies_no_other_request(self, accounts: AccountFixture) -> None:
        cookie = {"Cookie": f"session={accounts.key('freeze:read')}"}
        assert code(accounts.http.get("/api/auth/sessions", headers=cookie)) == INVALID
        for headers in ({}, cookie):
            assert code(accounts.http.get("/v1/freezes", headers=headers)) == (401, "missing_credentials")


class TestPrivilegeEscalationOfKeys:
    def test_api_key_cannot_read_create_change_or_revoke_keys(self, accounts: AccountFixture) -> None:
        secret = accounts.key()
        mine = accounts.session.scalars(select(ApiKey)).all()[-1]
        rows = accounts.session.query(ApiKeySecret).count()
        for operation in CONTRACT.operations.values():
            if operation.tag == "API keys":
                path = operation.path.replace("{apiKeyId}", mine.id)
                body = {"json": GOOD_KEY} if operation.id == "create_api_key" else {}
                answer = ask(accounts.http, operation.method, path, secret, **body)
                assert code(answer) == (403, "credential_type_not_allowed"), operation.id
        assert accounts.session.query(ApiKeySecret).count() == rows

    def test_rotation_of_a_key_cannot_change_its_properties(self, accounts: AccountFixture) -> None:
        cases: list[dict[str, Any]] = [
            {"scopes": ["freeze:write"]},
            {"expiresAt": None},
            {"agent": False},
            {"organizationId": "org_x"},
            {"state": "active"},
        ]
        for more in cases:
            key = factories.api_key(accounts.session, accounts.acme, "freeze:read").row
            answer = ask(accounts.http, "POST", f"/v1/api-keys/{key.id}/rotate", accounts.jwt, json=more)
            assert code(answer) == (422, "validation_failed")
            for method in ("PATCH", "PUT"):
                answer = ask(accounts.http, method, f"/v1/api-keys/{key.id}", accounts.jwt, json=more)
                assert code(answer) == (405, "method_not_allowed")


def json_bodies() -> Iterator[tuple[Operation, Any, tuple[str | int, ...]]]:
    """Yield each operation with each of its example bodies, and the place of each object inside.

    Webhooks and the compatibility API are left out: by their contracts, they ignore unknown fields.
    """
    for operation in CONTRACT.operations.values():
        lenient = operation.classic or operation.path.startswith("/webhooks/")
        if "application/json" in operation.body and not lenient:
            raw = CONTRACT.document["paths"][operation.path][operation.method.lower()]["requestBody"]
            examples = resolve(CONTRACT.document, raw)["content"]["application/json"]["examples"].values()
            for body in (resolve(CONTRACT.document, one)["value"] for one in examples):
                if isinstance(body, dict):
                    yield from ((operation, body, steps) for steps in objects_in(body, ()))


def objects_in(value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        yield steps
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from objects_in(child, (*steps, name))


def with_more(body: Any, steps: tuple[str | int, ...], more: dict[str, Any]) -> Any:
    if not steps:
        return {**more, **body}
    copied = body.copy()
    copied[steps[0]] = with_more(body[steps[0]], steps[1:], more)
    return copied


class TestMassAssignment:
    SMUGGLED: tuple[tuple[str, Any], ...] = (
        ("organizationId", "org_00000000000000000000000000"),
        ("state", "active"),
        ("role", "owner"),
        ("userId", "usr_00000000000000000000000000"),
        ("plan", "business"),
        ("emailVerifiedAt", "2026-01-01T00:00:00Z"),
        ("createdBy", {"type": "system", "id": None, "name": "x"}),
        ("__proto__", {"role": "owner"}),
    )

    def test_body_with_protected_fields_is_rejected(self, accounts: AccountFixture) -> None:
        for operation, body, steps in json_bodies():
            place, declared = body, CONTRACT.resolve(operation.body["application/json"]).get("properties", {})
            for step in steps:
                place, declared = place[step], {}
            credential = accounts.token if operation.accepts("SessionToken") else accounts.jwt
            path = re.sub(r"\{\w+\}", "nobodys", operation.path)
            smuggled = {name: value for name, value in self.SMUGGLED if name not in place and name not in declared}
            assert smuggled
            sent = with_more(body, steps, smuggled)
            answer = ask(accounts.http, operation.method, path, credential if operation.security else None, json=sent)
            assert code(answer) == (422, "validation_failed"), answer.text
            refused = {row["path"].rpartition("/")[2] for row in answer.json()["error"]["details"]}
            assert set(smuggled) <= refused, answer.text
