"""Operations of the tag Device sign-in."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.identity import DeviceAuthorization, OneTimeToken
from models.organizations import LoginSession, Membership, Organization, User
from rules.user_codes import ALPHABET, new_user_code
from services.secrets import new_one_time_token, new_session_token, token_hash
from tests import factories
from tests.handlers.callers import Caller, Tenant, at_once, refusal

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
APPROVE = "/api/auth/device/approve"
MINUTES_15 = 15 * 60


@dataclass(frozen=True, slots=True)
class Device:
    """A device that has begun to sign in."""

    http: httpx.Client
    device_code: str
    user_code: str

    def poll(self, **changes: str) -> httpx.Response:
        given = {"grant_type": GRANT, "device_code": self.device_code, "client_id": "freeze-cli", **changes}
        return self.http.post("/api/auth/device/token", data={name: value for name, value in given.items() if value})


Later = Callable[..., None]


@pytest.fixture
def begin(http: httpx.Client, session: Session, redis: Any) -> Callable[[], Device]:
    """Return what begins the sign-in of a device."""

    def begun() -> Device:
        answer = http.post("/api/auth/device/code", data={"client_id": "freeze-cli"})
        assert answer.status_code == 200, answer.text
        return Device(http, answer.json()["device_code"], answer.json()["user_code"])

    return begun


@pytest.fixture
def device(begin: Callable[[], Device]) -> Device:
    return begin()


@pytest.fixture
def ada(session: Session, acme: Tenant) -> User:
    """Return a member of acme."""
    user = factories.user(session)
    factories.membership(session, acme.organization, user)
    return user


def signed_in(session: Session, http: httpx.Client, user: User, active: Organization | None, **columns: Any) -> Caller:
    """Sign a person in, and return them with their session token."""
    token = new_session_token()
    factories.login(session, user, active, token_hash=token_hash(token), **columns)
    return Caller(http, token)


@pytest.fixture
def person(session: Session, http: httpx.Client, ada: User, acme: Tenant) -> Caller:
    """Return Ada, signed in and active in acme."""
    return signed_in(session, http, ada, acme.organization)


def one_time_token(session: Session, purpose: str, subject: str) -> str:
    """Return a token as it is mailed."""
    token, now = new_one_time_token(), factories.now()
    ends = now + timedelta(hours=1)
    row = OneTimeToken(
        token_hash=token_hash(token), purpose=purpose, subject=subject, details={}, created_at=now, expires_at=ends
    )
    session.add(row)
    session.flush()
    return token


def decide(person: Caller, device: Device, decision: str = "approve", **more: str) -> httpx.Response:
    return person.post(APPROVE, {"userCode": device.user_code, "decision": decision, **more})


def oauth_error(response: httpx.Response) -> str:
    """Check that a refusal is one of OAuth's (RFC 6749, 5.2), and return its code."""
    assert response.status_code == 400, response.text
    assert response.headers["Content-Type"] == "application/json"
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
    assert response.json()["error_description"]
    error: str = response.json()["error"]
    return error


class TestDeviceCode:
    def test_a_device_gets_two_codes_for_ten_minutes_and_an_address_to_show(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        response = http.post("/api/auth/device/code", data={"client_id": "freeze-cli"})
        told = response.json()
        assert (told["expires_in"], told["interval"]) == (600, 5)
        assert re.fullmatch(f"[{ALPHABET}]{{5}}-[{ALPHABET}]{{5}}", told["user_code"])
        assert told["verification_uri"] == "http://127.0.0.1:8080/device"
        assert told["verification_uri_complete"] == f"{told['verification_uri']}?user_code={told['user_code']}"
        assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")

    def test_parameters_may_come_as_json_and_unknown_ones_are_ignored(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        for request in (
            {"json": {"client_id": "freeze-cli", "resource": "http://127.0.0.1:8080"}},
            {"data": {"client_id": "freeze-cli", "resource": "http://127.0.0.1:8080", "scope": ""}},
            {
                "content": b"client_id=freeze%2Dcli",
                "headers": {"Content-Type": FORM["Content-Type"] + "; charset=UTF-8"},
            },
        ):
            assert http.post("/api/auth/device/code", **request).status_code == 200

    def test_of_the_secret_only_a_hash_is_kept(self, session: Session, device: Device) -> None:
        row = session.scalars(select(DeviceAuthorization)).one()
        assert row.device_code_hash == token_hash(device.device_code)
        assert device.device_code not in str(vars(row))
        assert (row.client_id, row.address) == ("freeze-cli", "127.0.0.1")

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            ({}, "invalid_request"),
            ({"content": b"client_id=freeze-cli"}, "invalid_request"),
            ({"content": b"<client_id/>", "headers": {"Content-Type": "text/xml"}}, "invalid_request"),
            ({"data": {"client_id": ""}}, "invalid_request"),
            ({"data": {"client_id": "x" * 101}}, "invalid_request"),
            ({"data": {"client_id": ["one", "two"]}}, "invalid_request"),
            ({"data": {"client_id": "a\0b"}}, "invalid_request"),
            ({"data": {"client_id": "\u202egpj"}}, "invalid_request"),
            ({"content": b"client_id=%ff", "headers": FORM}, "invalid_request"),
            ({"content": b"client_id=\xc3\xa9", "headers": FORM}, "invalid_request"),
            ({"content": b"&".join(b"a%d=1" % number for number in range(60)), "headers": FORM}, "invalid_request"),
            ({"json": {"client_id": 7}}, "invalid_request"),
            ({"json": {"client_id": {"a": "b"}}}, "invalid_request"),
            ({"json": ["client_id"]}, "invalid_request"),
            ({"content": b"[" * 10_000, "headers": {"Content-Type": "application/json"}}, "invalid_request"),
            (
                {"content": b'{"client_id": "\\ud800"}', "headers": {"Content-Type": "application/json"}},
                "invalid_request",
            ),
            (
                {"content": b'{"client_id": "a", "client_id": "b"}', "headers": {"Content-Type": "application/json"}},
                "invalid_request",
            ),
            ({"data": {"client_id": "freeze-cli", "scope": "freeze:write"}}, "invalid_scope"),
        ],
        ids=str,
    )
    def test_what_is_not_well_formed_is_refused_in_oauths_words(
        self, http: httpx.Client, redis: Any, database: str, request_: dict[str, Any], error: str
    ) -> None:
        assert oauth_error(http.post("/api/auth/device/code", **request_)) == error

    def test_a_query_or_a_large_body_is_refused_as_everywhere(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        given = {"client_id": "freeze-cli"}
        refusal(http.post("/api/auth/device/code?client_id=a", data=given), 400, "invalid_parameter")
        refusal(http.post("/api/auth/device/code", data={**given, "x": "x" * 20_000}), 413, "payload_too_large")

    def test_too_many_from_one_address_are_told_when_to_come_back(
        self, http: httpx.Client, begin: Callable[[], Device], later: Later
    ) -> None:
        for _ in range(30):
            begin()
        refused = http.post("/api/auth/device/code", data={"client_id": "freeze-cli"})
        refusal(refused, 429, "rate_limited")
        assert 0 < int(refused.headers["Retry-After"]) <= MINUTES_15
        later(minutes=15)
        begin()


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


class TestDeviceApprove:
    def test_it_takes_a_signed_in_person_and_nobody_who_looks_on(
        self, session: Session, device: Device, ada: User, acme: Tenant
    ) -> None:
        refusal(decide(acme.anybody, device), 401, "missing_credentials")
        refusal(decide(Caller(device.http, new_session_token()), device), 401, "invalid_token")
        refusal(decide(acme.person("owner"), device), 401, "invalid_token")
        refusal(decide(acme.key(), device), 403, "credential_type_not_allowed")
        support = signed_in(session, device.http, ada, acme.organization, support=True, kind="support")
        refusal(decide(support, device), 403, "impersonation_read_only")
        assert oauth_error(device.poll()) == "authorization_pending"

    def test_an_expired_or_revoked_session_decides_nothing(
        self, session: Session, device: Device, ada: User, acme: Tenant
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        expired = signed_in(session, device.http, ada, acme.organization, expires_at=over)
        refusal(decide(expired, device), 401, "token_expired")
        revoked = signed_in(session, device.http, ada, acme.organization, revoked_at=over)
        refusal(decide(revoked, device), 401, "invalid_token")

    def test_with_a_cookie_it_has_to_come_from_a_page_of_ours(self, device: Device, person: Caller) -> None:
        body = {"userCode": device.user_code, "decision": "approve"}
        cookie = {"Cookie": f"session={person.token}"}
        for origin in ({}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            refused = device.http.post(APPROVE, json=body, headers={**cookie, **origin})
            refusal(refused, 403, "origin_not_allowed")
        ours = {**cookie, "Origin": "http://127.0.0.1:8080"}
        assert device.http.post(APPROVE, json=body, headers=ours).status_code == 200

    def test_it_tells_what_was_let_in_and_from_where(self, device: Device, person: Caller, acme: Tenant) -> None:
        told = decide(person, device).json()
        assert told.pop("decidedAt")
        assert told == {
            "userCode": device.user_code,
            "clientId": "freeze-cli",
            "address": "127.0.0.1",
            "approved": True,
            "organizationId": acme.id,
        }

    def test_people_type_codes_as_they_like(self, begin: Callable[[], Device], person: Caller) -> None:
        for written in (str.lower, lambda code: code.replace("-", ""), lambda code: f" {code.replace('-', ' ')} "):
            device = begin()
            answer = person.post(APPROVE, {"userCode": written(device.user_code), "decision": "approve"})
            assert (answer.status_code, answer.json()["userCode"]) == (200, device.user_code)

    def test_a_decision_is_made_once(self, device: Device, person: Caller) -> None:
        answers = at_once(*[lambda: decide(person, device), lambda: decide(person, device, "deny")] * 2)
        assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
        refusal(decide(person, device, "deny"), 404, "not_found")
        refusal(decide(person, device), 404, "not_found")

    def test_a_retry_under_the_same_key_gets_the_same_answer(self, device: Device, person: Caller) -> None:
        body = {"userCode": device.user_code, "decision": "approve"}
        first, again = (person.post(APPROVE, body, headers={"Idempotency-Key": "once"}) for _ in range(2))
        assert (again.json(), again.headers["Idempotency-Replayed"]) == (first.json(), "true")

    def test_another_organisation_is_refused_and_the_device_goes_on_waiting(
        self, device: Device, person: Caller, globex: Tenant
    ) -> None:
        for wanted in (globex.id, "org_" + "0" * 26, "nonsense"):
            refusal(decide(person, device, organizationId=wanted), 404, "not_found")
        assert oauth_error(device.poll()) == "authorization_pending"
        assert decide(person, device).status_code == 200

    def test_a_deleted_organisation_is_refused(
        self, session: Session, device: Device, person: Caller, acme: Tenant
    ) -> None:
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(decide(person, device, organizationId=acme.id), 410, "organization_deleted")

    def test_it_acts_in_the_one_named_or_the_active_one_or_the_only_one(
        self, session: Session, begin: Callable[[], Device], http: httpx.Client, ada: User, acme: Tenant, globex: Tenant
    ) -> None:
        nowhere = signed_in(session, http, ada, None)
        assert decide(nowhere, begin()).json()["organizationId"] == acme.id
        factories.membership(session, globex.organization, ada)
        assert decide(nowhere, begin()).json()["organizationId"] is None
        assert decide(nowhere, begin(), organizationId=globex.id).json()["organizationId"] == globex.id
        active = signed_in(session, http, ada, globex.organization)
        device = begin()
        assert decide(active, device).json()["organizationId"] == globex.id
        assert device.poll().json()["organization_id"] == globex.id

    def test_who_belongs_to_none_may_sign_a_device_in_too(
        self, session: Session, device: Device, http: httpx.Client
    ) -> None:
        alone = signed_in(session, http, factories.user(session), None)
        assert decide(alone, device).json()["organizationId"] is None
        told = device.poll().json()
        assert told["organization_id"] is None
        refusal(Caller(http, told["access_token"]).get("/v1/freezes"), 403, "organization_not_provisioned")

    def test_wrong_codes_are_limited_for_a_person(
        self, session: Session, begin: Callable[[], Device], person: Caller, ada: User, later: Later
    ) -> None:
        for _ in range(9):
            refusal(guess(person), 404, "not_found")
        assert decide(person, begin()).status_code == 200  # a right one, which does not make up for the others
        refusal(guess(person), 404, "not_found")
        refused = decide(person, begin())
        refusal(refused, 429, "rate_limited")
        assert 0 < int(refused.headers["Retry-After"]) <= MINUTES_15
        later(minutes=15)
        assert decide(person, begin()).status_code == 200

    def test_as_many_at_once_are_no_more(self, device: Device, person: Caller) -> None:
        answers = at_once(*[lambda: guess(person)] * 16)
        assert sorted(answer.status_code for answer in answers) == [404] * 10 + [429] * 6

    def test_wrong_codes_are_limited_for_an_address(
        self, session: Session, device: Device, http: httpx.Client, person: Caller, acme: Tenant
    ) -> None:
        for number in range(30):
            if number % 10 == 0:
                guesser = signed_in(session, http, factories.user(session), None)
            refusal(guess(guesser), 404, "not_found")
        refusal(decide(person, device), 429, "rate_limited")

    def test_what_cannot_be_a_code_is_a_wrong_one_and_what_is_no_decision_is_refused(
        self, device: Device, person: Caller
    ) -> None:
        for code in ("AEIOU-AEIOU", "WDJBM", "\u202e", "B" * 40):
            refusal(person.post(APPROVE, {"userCode": code, "decision": "approve"}), 404, "not_found")
        refusal(person.post(APPROVE, {"userCode": device.user_code}), 400, "missing_parameter")
        refusal(person.post(APPROVE, {"userCode": "", "decision": "approve"}), 422, "validation_failed")
        refusal(decide(person, device, "perhaps"), 422, "validation_failed")
        refusal(decide(person, device, userId="usr_1"), 422, "validation_failed")

    def test_both_decisions_and_the_sign_in_are_in_the_audit(
        self, session: Session, begin: Callable[[], Device], person: Caller, ada: User, acme: Tenant
    ) -> None:
        approved, denied = begin(), begin()
        decide(person, approved)
        decide(person, denied, "deny")
        approved.poll()
        denied.poll()
        assert acme.audit() == ["device.approved", "device.denied", "session.started"]
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id)).all()
        assert {entry.actor["id"] for entry in entries} == {ada.id}
        assert entries[0].target == {"type": "device", "id": approved.user_code, "name": "freeze-cli"}
        assert entries[0].details == {"address": "127.0.0.1"}
        assert entries[2].target["name"] == "freeze-cli"


def guess(person: Caller) -> httpx.Response:
    return person.post(APPROVE, {"userCode": new_user_code(), "decision": "approve"})


class TestGetAuthorizationServerMetadata:
    def test_it_names_what_there_is_and_where(self, http: httpx.Client, database: str) -> None:
        response = http.get("/.well-known/oauth-authorization-server")
        assert response.headers["Cache-Control"] == "public, max-age=300"
        web = "http://127.0.0.1:8080"
        assert response.json() == {
            "issuer": web,
            "device_authorization_endpoint": f"{web}/api/auth/device/code",
            "token_endpoint": f"{web}/api/auth/device/token",
            "jwks_uri": f"{web}/.well-known/jwks.json",
            "response_types_supported": [],
            "grant_types_supported": [GRANT],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def test_whatever_it_names_is_there(self, http: httpx.Client, database: str) -> None:
        told = http.get("/.well-known/oauth-authorization-server").json()
        named = [value for name, value in told.items() if name.endswith(("_endpoint", "_uri"))]
        assert {http.get(httpx.URL(one).raw_path.decode()).status_code for one in named} <= {200, 405}
