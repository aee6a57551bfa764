"""A program asks whether it has been let in."""

from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import LoginSession, Membership, User
from services.core.tokens import token_hash
from tests import factories
from tests.handlers.callers import Caller, Tenant, at_once, refusal
from tests.handlers.device_sign_in.asking import Device, Later, decide, oauth_error, one_time_token


class TestDeviceToken:
    def test_it_is_pending_until_somebody_decides(self, device: Device, later: Later) -> None:
        for _ in range(3):
            assert oauth_error(device.poll()) == "authorization_pending"
            later(seconds=5)

    def test_an_approved_device_gets_tokens_of_the_person(
        self, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        response = device.poll()
        told = response.json()
        assert response.status_code == 200
        assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
        assert (told["token_type"], told["organization_id"]) == ("Bearer", acme.id)
        assert 890 <= told["expires_in"] <= 900
        assert Caller(device.http, told["access_token"]).get("/v1/freezes").status_code == 200
        again = Caller(device.http, told["session_token"]).get("/api/auth/token")
        assert again.status_code == 200
        assert Caller(device.http, again.json()["token"]).get("/v1/freezes").status_code == 200

    def test_it_is_a_session_like_any_other_named_after_the_client(
        self, session: Session, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        told = device.poll().json()
        row = session.scalars(select(LoginSession).where(LoginSession.kind == "device")).one()
        assert row.token_hash == token_hash(told["session_token"])
        assert (row.user_id, row.organization_id, row.support) == (ada.id, acme.id, False)
        assert (row.client, row.address) == ("freeze-cli", "127.0.0.1")
        row.revoked_at = factories.now()
        session.flush()
        refusal(Caller(device.http, told["access_token"]).get("/v1/freezes"), 401, "invalid_token")

    def test_a_poll_that_comes_too_soon_makes_the_interval_longer_for_good(self, device: Device, later: Later) -> None:
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

    def test_what_travelled_a_little_faster_than_the_poll_before_is_not_too_soon(
        self, device: Device, later: Later
    ) -> None:
        device.poll()
        later(seconds=4.5)
        assert oauth_error(device.poll()) == "authorization_pending"

    def test_once_decided_no_poll_is_too_soon(self, device: Device, person: Caller) -> None:
        device.poll()
        decide(person, device)
        assert device.poll().status_code == 200

    def test_after_ten_minutes_the_codes_have_expired(self, device: Device, person: Caller, later: Later) -> None:
        later(minutes=9, seconds=59)
        assert oauth_error(device.poll()) == "authorization_pending"
        later(seconds=1)
        assert oauth_error(device.poll()) == "expired_token"
        refusal(decide(person, device), 404, "not_found")

    def test_an_approval_expires_too(self, device: Device, person: Caller, later: Later) -> None:
        decide(person, device)
        later(minutes=10)
        assert oauth_error(device.poll()) == "expired_token"

    def test_a_denied_device_is_told_so(self, device: Device, person: Caller, later: Later) -> None:
        decide(person, device, "deny")
        assert oauth_error(device.poll()) == "access_denied"
        later(hours=1)
        assert oauth_error(device.poll()) == "access_denied"

    def test_tokens_are_given_once(self, session: Session, device: Device, person: Caller) -> None:
        decide(person, device)
        answers = at_once(*[device.poll] * 4)
        assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
        assert {oauth_error(answer) for answer in answers if answer.status_code == 400} == {"invalid_grant"}
        assert oauth_error(device.poll()) == "invalid_grant"
        assert len(session.scalars(select(LoginSession).where(LoginSession.kind == "device")).all()) == 1

    def test_a_code_is_for_the_client_that_it_was_given(self, device: Device, person: Caller) -> None:
        decide(person, device)
        assert oauth_error(device.poll(client_id="another")) == "invalid_grant"
        assert oauth_error(device.poll(device_code="x" * 43)) == "invalid_grant"
        assert device.poll().status_code == 200

    def test_the_user_code_opens_nothing(self, device: Device, person: Caller) -> None:
        decide(person, device)
        assert oauth_error(device.poll(device_code=device.user_code)) == "invalid_grant"

    def test_other_grants_and_missing_parameters_are_refused(self, device: Device) -> None:
        for grant in ("authorization_code", "client_credentials", "password", "refresh_token"):
            assert oauth_error(device.poll(grant_type=grant)) == "unsupported_grant_type"
        for name in ("grant_type", "device_code", "client_id"):
            refused = device.poll(**{name: ""})
            assert oauth_error(refused) == "invalid_request"
            assert name in refused.json()["error_description"]

    def test_who_has_left_meanwhile_lets_no_device_in(
        self, session: Session, device: Device, person: Caller, ada: User, acme: Tenant
    ) -> None:
        decide(person, device)
        session.delete(session.get_one(Membership, (acme.id, ada.id)))
        session.flush()
        assert oauth_error(device.poll()) == "access_denied"

    def test_another_password_takes_back_what_no_device_has_used_yet(
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

    def test_a_deleted_organisation_lets_no_device_in(
        self, session: Session, device: Device, person: Caller, acme: Tenant
    ) -> None:
        decide(person, device)
        acme.organization.deleted_at = factories.now()
        session.flush()
        assert oauth_error(device.poll()) == "access_denied"
