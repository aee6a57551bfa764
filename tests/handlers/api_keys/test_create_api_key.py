"""Making a key: who may, what it may, and how long it lives."""

from datetime import datetime, timedelta

import pytest

from models.organizations import Membership
from services.identity.api_key_secrets import looks_like_secret
from tests import factories
from tests.factories import ROLES
from tests.handlers.api_keys.requests import PATH, SECOND, USED, WANTED, audited, instant, listed, made
from tests.handlers.callers import Caller, Tenant, refusal
from tests.harness.clock import MovableClock


class TestCreateApiKey:
    def test_created_secret_grants_exactly_the_given_scopes(self, acme: Tenant) -> None:
        answer = acme.person("owner").post(PATH, {**WANTED, "scopes": ["freeze:read", "repo:read"]})
        body = answer.json()
        key = Caller(acme.http, body["secret"])
        assert looks_like_secret(body["secret"])
        assert "Location" not in answer.headers  # no operation reads one key
        assert key.get(USED).status_code == 200
        assert key.get("/v1/repos").status_code == 200
        refusal(key.post("/v1/freezes/lift", {"scope": {"type": "organization"}}), 403, "insufficient_scope")

    def test_create_api_key_returns_every_field_of_the_key(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(days=365)
        body = made(acme, expiresAt=instant(expires_at))
        shown = body["apiKey"]
        made_by, instants = shown.pop("createdBy"), [shown.pop("createdAt"), shown.pop("expiresAt")]
        assert shown.pop("id").startswith("key_")
        assert (made_by["type"], made_by["id"][:4]) == ("user", "usr_")
        assert [datetime.fromisoformat(text) for text in instants] == [clock.at, expires_at]
        assert shown == {
            "name": "Release pipeline",
            "scopes": ["freeze:read"],
            "agent": False,
            "state": "active",
            "prefix": body["secret"][:13],
            "lastUsedAt": None,
            "rotatedAt": None,
            "graceEndsAt": None,
        }

    def test_create_api_key_rejects_unknown_or_malformed_scopes(self, acme: Tenant) -> None:
        cases: list[tuple[object, str]] = [
            ([], "/scopes"),
            (["freeze:read", "freeze:read"], "/scopes"),
            (["freeze:read", "freeze:admin"], "/scopes/1"),
            (["api-keys:write"], "/scopes/0"),
            (["Freeze:Read"], "/scopes/0"),
            (["*"], "/scopes/0"),
            ("freeze:read", "/scopes"),
        ]
        for scopes, path in cases:
            error = refusal(acme.person("admin").post(PATH, {**WANTED, "scopes": scopes}), 422, "validation_failed")
            assert [detail["path"] for detail in error["details"]] == [path]
            assert listed(acme) == []

    @pytest.mark.parametrize("missing", WANTED)
    def test_create_api_key_requires_name_scopes_and_expiry(self, acme: Tenant, missing: str) -> None:
        body = {name: value for name, value in WANTED.items() if name != missing}
        error = refusal(acme.person("admin").post(PATH, body), 400, "missing_parameter")
        assert [detail["path"] for detail in error["details"]] == [f"/{missing}"]

    def test_create_api_key_requires_an_expiry_in_the_future(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        for expires_at in (clock.at - SECOND, clock.at):
            answer = acme.person("admin").post(PATH, {**WANTED, "expiresAt": instant(expires_at)})
            error = refusal(answer, 422, "invalid_parameter")
            assert [detail["path"] for detail in error["details"]] == ["/expiresAt"]
        made(acme, expiresAt=instant(clock.at + SECOND))

    def test_agent_key_expires_within_90_days(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        longest = clock.at + timedelta(days=90)
        for expires_at in (None, instant(longest + SECOND)):
            answer = acme.person("admin").post(PATH, {**WANTED, "agent": True, "expiresAt": expires_at})
            error = refusal(answer, 422, "invalid_parameter")
            assert [detail["path"] for detail in error["details"]] == ["/expiresAt"]
        assert made(acme, agent=True, expiresAt=instant(longest))["apiKey"]["agent"]

    def test_create_api_key_is_audited_without_the_secret(self, acme: Tenant) -> None:
        body = made(acme)
        entry = audited(acme)
        assert (entry.action, entry.target["id"], entry.target["name"]) == (
            "api_key.created",
            body["apiKey"]["id"],
            "Release pipeline",
        )
        assert entry.actor["type"] == "user"
        assert entry.details["after"]["scopes"] == ["freeze:read"]
        assert body["secret"] not in str(entry.details)


@pytest.mark.parametrize("role", ROLES)
def test_person_who_loses_the_role_cannot_create_keys_any_more(acme: Tenant, role: str) -> None:
    admin = acme.person("admin")
    assert admin.post(PATH, WANTED).status_code == 201
    acme.session.query(Membership).where(Membership.organization_id == acme.id).update({"role": role})
    expected = 201 if role in {"admin", "owner"} else 403
    assert admin.post(PATH, WANTED).status_code == expected
