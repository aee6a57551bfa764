"""A program asks whether it has been let in."""

from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import LoginSession, Membership, User
from services.core.tokens import token_hash
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.device_sign_in.requests import Device, Later, decide, oauth_error, one_time_token
from tests.harness.concurrency import at_once


class TestDeviceToken:
    def test_device_token_is_pending_until_the_decision(self, device: Device, later: Later) -> None:
        for _ in range(3):
            assert oauth_error(device.poll()) == "authorization_pending"
            later(seconds=5)

    def test_device_token_returns_tokens_of_the_person_when_approved(
        self, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        response = device.poll()
        shown = response.json()
        assert response.status_code == 200
        assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
        assert (shown["token_type"], shown["organization_id"]) == ("Bearer", acme.id)
        assert 890 <= shown["expires_in"] <= 900
        assert Caller(device.http, shown["access_token"]).get("/v1/freezes").status_code == 200
        again = answered(Caller(device.http, shown["session_token"]).get("/api/auth/token"))
        assert Caller(device.http, again["token"]).get("/v1/freezes").status_code == 200

    def test_device_session_is_an_ordinary_session_named_after_the_client(
        self, session: Session, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        shown = device.poll().json()
        row = session.scalars(select(LoginSession).where(LoginSession.kind == "device")).one()
        assert row.token_hash == token_hash(shown["session_token"])
        assert (row.user_id, row.organization_id, row.support) == (ada.id, acme.id, False)
        assert (row.client, row.address) == ("freeze-cli", "127.0.0.1")
        row.revoked_at = factories.now()
        session.flush()
        refusal(Caller(device.http, shown["access_token"]).get("/v1/freezes"), 401, "invalid_token")

    def test_device_token_polled_too_soon_lengthens_the_interval_for_good(self, device: Device, later: Later) -> None:
        assert oauth_error(device.poll()) == "authorization_pending"
        later(seconds=3)
        too_soon = device.poll()
        assert (oauth_error(too_soon), too_soon.json()["interval"]) == ("slow_down", 10)
        later(seconds=5)
        too_soon = device.poll()
        assert (oauth_error(too_soon), too_soon.json()["interval"]) == ("slow_down", 15)
        for _ in range(2):
            later(seconds=15)
            assert oauth_error(device.poll()) == "authorization_pending"
        later(seconds=10)
        assert device.poll().json()["interval"] == 20

    def test_device_token_tolerates_a_slightly_early_poll(self, device: Device, later: Later) -> None:
        device.poll()
        later(seconds=4.5)
        assert oauth_error(device.poll()) == "authorization_pending"

    def test_device_token_polled_after_the_decision_is_never_too_soon(self, device: Device, person: Caller) -> None:
        device.poll()
        decide(person, device)
        assert device.poll().status_code == 200

    def test_device_codes_expire_after_ten_minutes(self, device: Device, person: Caller, later: Later) -> None:
        later(minutes=9, seconds=59)
        assert oauth_error(device.poll()) == "authorization_pending"
        later(seconds=1)
        assert oauth_error(device.poll()) == "expired_token"
        refusal(decide(person, device), 404, "not_found")

    def test_approved_device_code_expires_after_ten_minutes(self, device: Device, person: Caller, later: Later) -> None:
        decide(person, device)
        later(minutes=10)
        assert oauth_error(device.poll()) == "expired_token"

    def test_device_token_is_refused_when_denied(self, device: Device, person: Caller, later: Later) -> None:
        decide(person, device, "deny")
        assert oauth_error(device.poll()) == "access_denied"
        later(hours=1)
        assert oauth_error(device.poll()) == "access_denied"

    def test_device_token_is_issued_once(self, session: Session, device: Device, person: Caller) -> None:
        decide(person, device)
        answers = at_once(*[device.poll] * 4)
        assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
        assert {oauth_error(answer) for answer in answers if answer.status_code == 400} == {"invalid_grant"}
        assert oauth_error(device.poll()) == "invalid_grant"
        assert len(session.scalars(select(LoginSession).where(LoginSession.kind == "device")).all()) == 1

    def test_device_token_is_issued_only_to_the_client_of_the_code(self, device: Device, person: Caller) -> None:
        decide(person, device)
        assert oauth_error(device.poll(client_id="another")) == "invalid_grant"
        assert oauth_error(device.poll(device_code="x" * 43)) == "invalid_grant"
        assert device.poll().status_code == 200

    def test_device_token_does_not_accept_the_user_code(self, device: Device, person: Caller) -> None:
        decide(person, device)
        assert oauth_error(device.poll(device_code=device.user_code)) == "invalid_grant"

    def test_device_token_rejects_other_grants_and_missing_parameters(self, device: Device) -> None:
        for grant in ("authorization_code", "client_credentials", "password", "refresh_token"):
            assert oauth_error(device.poll(grant_type=grant)) == "unsupported_grant_type"
        for name in ("grant_type", "device_code", "client_id"):
            refused = device.poll(**{name: ""})
            assert oauth_error(refused) == "invalid_request"
            assert name in refused.json()["error_description"]

    def test_device_token_is_refused_after_the_person_left_the_organization(
        self, session: Session, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        session.delete(session.get_one(Membership, (acme.id, ada.id)))
        session.flush()
        assert oauth_error(device.poll()) == "access_denied"

    def test_password_reset_cancels_unused_device_approvals(
        self, session: Session, begin: Callable[[], Device], person: Caller, ada: User
    ) -> None:
        used, unused = begin(), begin()
        decide(person, used)
        decide(person, unused)
        access_token = used.poll().json()["access_token"]
        mailed = one_time_token(session, "reset_password", ada.id)
        chosen = {"token": mailed, "password": "seven green bicycles"}
        assert used.http.post("/api/auth/reset-password", json=chosen).status_code < 300
        assert oauth_error(unused.poll()) == "access_denied"
        refusal(Caller(used.http, access_token).get("/v1/freezes"), 401, "invalid_token")

    def test_device_token_is_refused_for_a_deleted_organization(
        self, session: Session, device: Device, person: Caller, acme: Tenant
    ) -> None:
        decide(person, device)
        acme.organization.deleted_at = factories.now()
        session.flush()
        assert oauth_error(device.poll()) == "access_denied"
