"""Rotating and revoking a key: which of its secrets open the door from then on."""

from datetime import datetime, timedelta

import pytest

from models.api_keys import ApiKeySecret
from tests import factories
from tests.handlers.api_keys.requests import PATH, SECOND, USED, audited, instant, listed, made, rotated, works
from tests.handlers.callers import Caller, Tenant, refusal
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once


class TestRotateApiKey:
    def test_both_secrets_work_in_the_grace_period_then_only_the_new_secret(
        self, acme: Tenant, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        old = made(acme)
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=600)
        ends_at = clock.at + timedelta(seconds=600)
        assert datetime.fromisoformat(new["apiKey"]["graceEndsAt"]) == ends_at
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        clock.at = ends_at - SECOND
        assert works(acme, old["secret"])
        assert listed(acme)[0]["graceEndsAt"] is not None
        for late in (timedelta(), SECOND):
            clock.at = ends_at + late
            refusal(Caller(acme.http, old["secret"]).get(USED), 401, "invalid_token")
            assert works(acme, new["secret"])
            assert listed(acme)[0]["graceEndsAt"] is None

    def test_rotation_keeps_scopes_and_expiry(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = instant(clock.at + timedelta(days=30))
        before = made(acme, agent=True, expiresAt=expires_at, scopes=["freeze:read", "repo:read"])
        clock.at += timedelta(minutes=5)
        after = rotated(acme, before["apiKey"]["id"])
        changed = {"prefix", "rotatedAt", "graceEndsAt"}
        assert {name for name, value in after["apiKey"].items() if before["apiKey"][name] != value} == changed
        assert after["apiKey"]["prefix"] == after["secret"][:13]
        assert datetime.fromisoformat(after["apiKey"]["rotatedAt"]) == clock.at
        assert after["secret"] != before["secret"]

    def test_grace_period_is_a_day_by_default(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        key_id = made(acme)["apiKey"]["id"]
        without_body = acme.person("admin").post(f"{PATH}/{key_id}/rotate").json()
        for answer in (without_body, rotated(acme, key_id)):
            assert datetime.fromisoformat(answer["apiKey"]["graceEndsAt"]) == clock.at + timedelta(days=1)

    def test_rotation_without_grace_period_revokes_the_old_secret_at_once(self, acme: Tenant) -> None:
        old = made(acme)
        assert works(acme, old["secret"])
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=0)
        assert new["apiKey"]["graceEndsAt"] is None
        assert not works(acme, old["secret"])
        assert works(acme, new["secret"])

    def test_rotation_in_the_grace_period_revokes_the_oldest_secret_at_once(self, acme: Tenant) -> None:
        first = made(acme)
        second = rotated(acme, first["apiKey"]["id"])
        third = rotated(acme, first["apiKey"]["id"], graceSeconds=60)
        secrets = [answer["secret"] for answer in (first, second, third)]
        assert [works(acme, secret) for secret in secrets] == [False, True, True]
        last = rotated(acme, first["apiKey"]["id"], graceSeconds=0)
        assert [works(acme, secret) for secret in [*secrets, last["secret"]]] == [False, False, False, True]

    def test_grace_period_ends_with_the_expiry_of_the_key(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(minutes=10)
        old = made(acme, expiresAt=instant(expires_at))
        new = rotated(acme, old["apiKey"]["id"])
        assert new["apiKey"]["graceEndsAt"] == new["apiKey"]["expiresAt"]
        clock.at = expires_at - SECOND
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        for late in (timedelta(), SECOND):
            clock.at = expires_at + late
            for body in (old, new):
                refusal(Caller(acme.http, body["secret"]).get(USED), 401, "token_expired")

    @pytest.mark.parametrize("seconds", [-1, 604_801, 1.5, "60", None])
    def test_grace_period_is_at_most_a_week(self, acme: Tenant, seconds: object) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}/rotate"
        refusal(acme.person("admin").post(path, {"graceSeconds": seconds}), 422, "validation_failed")

    def test_revoked_or_expired_key_cannot_be_rotated(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        revoked, expiring = made(acme), made(acme, expiresAt=instant(clock.at + SECOND))
        acme.person("admin").delete(f"{PATH}/{revoked['apiKey']['id']}")
        clock.at += SECOND
        for body in (revoked, expiring):
            answer = acme.person("admin").post(f"{PATH}/{body['apiKey']['id']}/rotate")
            refusal(answer, 409, "invalid_state")

    def test_concurrent_rotations_leave_a_single_secret_without_an_end(self, acme: Tenant) -> None:
        body = made(acme)
        path = f"{PATH}/{body['apiKey']['id']}/rotate"
        admin = acme.person("admin")
        answers = at_once(*[lambda: admin.post(path, {"graceSeconds": 600})] * 4)
        assert [answer.status_code for answer in answers] == [200] * 4
        secrets = acme.session.query(ApiKeySecret).where(ApiKeySecret.api_key_id == body["apiKey"]["id"]).all()
        assert len([row for row in secrets if row.ends_at is None]) == 1
        assert sum(works(acme, answer.json()["secret"]) for answer in answers) == 2
        assert not works(acme, body["secret"])

    def test_rotation_is_audited(self, acme: Tenant) -> None:
        body = rotated(acme, made(acme)["apiKey"]["id"])
        entry = audited(acme)
        assert (entry.action, entry.target["id"]) == ("api_key.rotated", body["apiKey"]["id"])
        assert body["secret"] not in str(entry.details)
        assert datetime.fromisoformat(entry.details["after"]["graceEndsAt"]) == datetime.fromisoformat(
            body["apiKey"]["graceEndsAt"]
        )


class TestRevokeApiKey:
    def test_revocation_ends_every_secret_of_the_key_at_once(self, acme: Tenant) -> None:
        old = made(acme)
        new = rotated(acme, old["apiKey"]["id"])
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        assert acme.person("admin").delete(f"{PATH}/{old['apiKey']['id']}").status_code == 204
        for body in (old, new):
            refusal(Caller(acme.http, body["secret"]).get(USED), 401, "invalid_token")
        (row,) = listed(acme)
        assert (row["state"], row["graceEndsAt"]) == ("revoked", None)

    def test_revocation_of_a_revoked_key_is_a_conflict(self, acme: Tenant) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}"
        assert acme.person("admin").delete(path).status_code == 204
        refusal(acme.person("admin").delete(path), 409, "invalid_state")
        assert acme.audit().count("api_key.revoked") == 1

    def test_concurrent_revocations_succeed_once(self, acme: Tenant) -> None:
        path, admin = f"{PATH}/{made(acme)['apiKey']['id']}", acme.person("admin")
        answers = at_once(*[lambda: admin.delete(path)] * 2)
        assert sorted(answer.status_code for answer in answers) == [204, 409]

    def test_revocation_of_an_expired_key_is_a_conflict(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        body = made(acme, expiresAt=instant(clock.at + SECOND))
        clock.at += SECOND
        refusal(acme.person("admin").delete(f"{PATH}/{body['apiKey']['id']}"), 409, "invalid_state")

    def test_revocation_is_audited(self, acme: Tenant) -> None:
        key_id = made(acme)["apiKey"]["id"]
        acme.person("owner").delete(f"{PATH}/{key_id}")
        entry = audited(acme)
        assert (entry.action, entry.target["id"], entry.actor["name"]) == ("api_key.revoked", key_id, "Owner")
