"""Operations of the tag Sign-in that begin, use and end sessions with a password."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import jwt
import psycopg
import pytest
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.main import create_app
from models.audit import AuditEntry
from models.organizations import Membership
from services.core.tokens import new_session_token
from tests import factories
from tests.handlers.accounts import HERE, OTHER, Client, client
from tests.handlers.callers import Tenant, closed, refusal
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.mails import mailed_token
from tests.harness.passwords import PASSWORD, account
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving

Later = Callable[..., None]
FROM_HERE = {"Origin": HERE}


@pytest.fixture(scope="session")
def served_elsewhere(
    shared_database: psycopg.Connection, redis_url: str, clock_of_session: MovableClock
) -> Iterator[str]:
    """Serve the same product a second time: another process, with memories of its own."""
    config = product_config(
        address_of(shared_database), redis_url, base_url=factories.AUDIENCE, session_issuer=factories.ISSUER
    )
    with serving(create_app(config, product_parts(clock=clock_of_session))) as url:
        yield url


class TestSignIn:
    def test_sign_in_returns_the_session_and_its_token(self, visitor: Client, acme: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization)
        answer = visitor.sign_in(user.email, headers={"User-Agent": "a browser"})
        body = answer.json()
        assert body["sessionToken"].startswith("svc_session_")
        assert body["account"]["id"] == user.id
        shown = body["session"]
        assert (shown["kind"], shown["client"], shown["address"]) == ("browser", "a browser", "127.0.0.1")
        assert (shown["organizationId"], shown["current"], shown["lastUsedAt"]) == (acme.id, True, None)
        assert "no-store" in answer.headers["Cache-Control"]

    def test_sign_in_sets_a_cookie_hidden_from_scripts(self, visitor: Client, session: Session) -> None:
        answer = visitor.sign_in(account(session).email)
        [first, second] = answer.headers.get_list("Set-Cookie")
        value, *attributes = first.split("; ")
        assert value == f"session={answer.json()['sessionToken']}"
        assert attributes == ["Max-Age=2592000", "Path=/", "HttpOnly", "SameSite=Lax"]
        value, *attributes = second.split("; ")
        assert value.startswith("device=")
        assert attributes == ["Max-Age=15552000", "Path=/", "HttpOnly", "SameSite=Lax"]
        assert visitor.get("/api/auth/token").status_code == 200

    def test_session_cookie_is_secure_when_the_web_origin_uses_https(
        self, shared_database: psycopg.Connection, redis_url: str, session: Session, redis: Redis
    ) -> None:
        config = product_config(address_of(shared_database), redis_url, web_url="https://app.example")
        user = account(session)
        with serving(create_app(config, product_parts())) as url, client(url) as browser:
            answer = browser.sign_in(user.email)
        cookies = answer.headers.get_list("Set-Cookie")
        assert [cookie.partition("=")[0] for cookie in cookies] == ["__Host-session", "__Host-device"]
        assert all(cookie.endswith("; Secure") for cookie in cookies)

    def test_wrong_password_and_unknown_address_are_indistinguishable(self, visitor: Client, session: Session) -> None:
        known, unconfirmed = account(session), account(session)
        unconfirmed.email_verified_at = None
        without = factories.user(session)
        session.flush()
        answers = [
            visitor.sign_in(known.email, "not the password"),
            visitor.sign_in("nobody@example.com"),
            visitor.sign_in(unconfirmed.email),
            visitor.sign_in(without.email),
        ]
        reported = {(refusal(one, 401, "wrong_credentials")["message"], *sorted(one.headers.keys())) for one in answers}
        assert len(reported) == 1

    def test_sign_in_always_issues_a_new_session_token(self, visitor: Client, session: Session) -> None:
        user, planted = account(session), new_session_token()
        first = visitor.sign_in(user.email, headers={"Cookie": f"session={planted}"}).json()
        visitor.http.cookies.clear()
        second = visitor.sign_in(user.email, headers={"Cookie": f"session={first['sessionToken']}"}).json()
        visitor.http.cookies.clear()
        assert len({planted, first["sessionToken"], second["sessionToken"]}) == 3
        assert first["session"]["id"] != second["session"]["id"]
        refusal(Client(visitor.http, planted).get("/api/auth/token"), 401, "invalid_token")

    def test_account_is_locked_for_fifteen_minutes_after_ten_failures(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        user, other = account(session), account(session, "Ada")
        first_try = time.monotonic()
        for _ in range(10):
            refusal(visitor.sign_in(user.email.upper(), "not the password"), 401, "wrong_credentials")
        closed(visitor.sign_in(user.email), 900, since=first_try)
        assert visitor.sign_in(other.email).status_code == 200
        later(minutes=15)
        assert visitor.sign_in(user.email).status_code == 200

    def lock(self, visitor: Client, email: str, address: str = "203.0.113.9") -> None:
        """Try wrong passwords as a stranger until the account is locked."""
        for _ in range(10):
            visitor.sign_in(email, "not the password", headers={"X-Forwarded-For": address})
        refusal(visitor.sign_in(email, headers={"X-Forwarded-For": address}), 429, "rate_limited")

    def test_strangers_do_not_lock_the_owner_out_of_their_network(self, visitor: Client, session: Session) -> None:
        user, home = account(session), {"X-Forwarded-For": "198.51.100.4"}
        assert visitor.sign_in(user.email, headers=home).status_code == 200
        visitor.http.cookies.clear()
        self.lock(visitor, user.email)
        assert visitor.sign_in(user.email, headers=home).status_code == 200

    def test_strangers_do_not_lock_the_owner_out_of_their_browser(self, visitor: Client, session: Session) -> None:
        user = account(session)
        token = visitor.sign_in(user.email, headers={"X-Forwarded-For": "198.51.100.4"}).json()["sessionToken"]
        visitor.http.cookies.clear()
        self.lock(visitor, user.email)
        away = {"X-Forwarded-For": "192.0.2.77"}
        refusal(visitor.sign_in(user.email, headers=away), 429, "rate_limited")
        foreign = visitor.sign_in(user.email, headers={**away, "Cookie": "session=svc_session_" + "x" * 43})
        refusal(foreign, 429, "rate_limited")
        assert visitor.sign_in(user.email, headers={**away, "Cookie": f"session={token}"}).status_code == 200

    def away(self, visitor: Client, email: str, device: str, password: str = PASSWORD) -> httpx.Response:
        """Sign in from another network, with the cookie of a device."""
        visitor.http.cookies.clear()
        headers = {"X-Forwarded-For": "192.0.2.77", "Cookie": f"device={device}"}
        return visitor.sign_in(email, password, headers=headers)

    def device_of(self, visitor: Client, email: str, cookie: str = "") -> str:
        """Sign in and out in a browser, and return the cookie of the device that it keeps."""
        visitor.http.cookies.clear()
        headers = {"X-Forwarded-For": "198.51.100.4", "Cookie": f"device={cookie}"}
        visitor.sign_in(email, headers=headers)
        assert visitor.post("/api/auth/sign-out", headers=FROM_HERE).status_code == 204
        assert visitor.http.cookies.get("session") is None
        device = str(visitor.http.cookies.get("device"))
        visitor.http.cookies.clear()
        return device

    def test_device_stays_known_after_sign_out(self, visitor: Client, session: Session) -> None:
        user, other = account(session), account(session, "Ada")
        device = self.device_of(visitor, user.email)
        for email in (user.email, other.email):
            self.lock(visitor, email)
        refusal(self.away(visitor, user.email, "x" * 50), 429, "rate_limited")
        refusal(self.away(visitor, user.email, "AB"[device[0] == "A"] + device[1:]), 429, "rate_limited")
        refusal(self.away(visitor, other.email, device), 429, "rate_limited")
        assert self.away(visitor, user.email, device).status_code == 200

    def test_known_device_has_ten_attempts_of_its_own(self, visitor: Client, session: Session) -> None:
        user = account(session)
        device = self.device_of(visitor, user.email)
        self.lock(visitor, user.email)
        for _ in range(10):
            refusal(self.away(visitor, user.email, device, "not the password"), 401, "wrong_credentials")
        refusal(self.away(visitor, user.email, device), 429, "rate_limited")

    def test_device_is_unknown_after_180_days(self, visitor: Client, session: Session, later: Later) -> None:
        user = account(session)
        device = self.device_of(visitor, user.email)
        later(days=180)
        self.lock(visitor, user.email)
        refusal(self.away(visitor, user.email, device), 429, "rate_limited")

    def test_new_password_makes_devices_unknown(self, visitor: Client, session: Session) -> None:
        user = account(session)
        device = self.device_of(visitor, user.email)
        visitor.auth("forgot-password", email=user.email)
        reset = {"token": mailed_token(session, user.email), "password": OTHER}
        assert visitor.auth("reset-password", **reset).status_code == 204
        visitor.http.cookies.clear()
        self.lock(visitor, user.email)
        refusal(self.away(visitor, user.email, device, OTHER), 429, "rate_limited")

    def test_mailed_link_opens_the_door_that_strangers_have_locked(self, visitor: Client, session: Session) -> None:
        user = account(session)
        self.lock(visitor, user.email)
        visitor.auth("forgot-password", email=user.email)
        visitor.auth("reset-password", token=mailed_token(session, user.email), password=OTHER)
        device = str(visitor.http.cookies.get("device"))
        visitor.http.cookies.clear()
        self.lock(visitor, user.email)
        assert self.away(visitor, user.email, device, OTHER).status_code == 200

    def test_device_is_known_to_the_last_four_people(self, visitor: Client, session: Session) -> None:
        people = [account(session, f"Eve{number}") for number in range(5)]
        device = ""
        for person in (people[0], *people):
            previous, device = device, self.device_of(visitor, person.email, device)
            assert device != previous
        assert device.count(".") == 3
        for person in (people[0], people[1]):
            self.lock(visitor, person.email)
        refusal(self.away(visitor, people[0].email, device), 429, "rate_limited")
        assert self.away(visitor, people[1].email, device).status_code == 200

    def test_stated_addresses_that_are_none_count_as_one(self, visitor: Client) -> None:
        for number in range(30):
            forwarded = {"X-Forwarded-For": f"nonsense {number}"}
            answer = visitor.sign_in(f"nobody-{number}@example.com", headers=forwarded)
            refusal(answer, 401, "wrong_credentials")
        last = visitor.sign_in("nobody-30@example.com", headers={"X-Forwarded-For": "x" * 5000})
        refusal(last, 429, "rate_limited")

    def test_concurrent_sign_in_failures_lock_the_account_alike(self, visitor: Client, session: Session) -> None:
        user = account(session)
        answers = at_once(*[lambda: visitor.sign_in(user.email, "not the password")] * 14)
        assert sorted(answer.status_code for answer in answers) == [401] * 10 + [429] * 4

    def test_successful_sign_in_resets_the_failures(self, visitor: Client, session: Session) -> None:
        user = account(session)
        for _ in range(2):
            for _ in range(9):
                visitor.sign_in(user.email, "not the password")
            assert visitor.sign_in(user.email).status_code == 200

    def test_sign_in_is_audited_in_each_organization(self, visitor: Client, acme: Tenant, globex: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization, globex.organization)
        has_started = visitor.sign_in(user.email).json()["session"]
        assert has_started["organizationId"] is None
        for tenant in (acme, globex):
            query = select(AuditEntry).where(AuditEntry.organization_id == tenant.id)
            [entry] = acme.session.scalars(query)
            assert (entry.action, entry.target["id"]) == ("session.started", has_started["id"])
            assert entry.actor == {"type": "user", "id": user.id, "name": "Eve"}

    def test_sign_in_reports_maintenance_without_using_the_database(self, tmp_path: Path, redis_url: str) -> None:
        window = tmp_path / "maintenance"
        window.touch()
        config = product_config("postgresql://nobody@127.0.0.1:1/nothing", redis_url, maintenance_file=window)
        with serving(create_app(config, product_parts())) as url, client(url) as visitor:
            refusal(visitor.sign_in("eve@example.com"), 503, "maintenance")


class TestSignOut:
    def test_sign_out_ends_session_and_access_tokens_in_every_process(
        self, visitor: Client, served_elsewhere: str, acme: Tenant
    ) -> None:
        eve = visitor.signed_in(account(acme.session, "Eve", acme.organization))
        with client(served_elsewhere) as other:
            elsewhere = Client(other.http, eve.token)
            minted = eve.jwt()
            assert (eve.calls(minted), elsewhere.calls(minted), elsewhere.calls()) == (200, 200, 200)
            answer = eve.post("/api/auth/sign-out")
            assert (answer.status_code, answer.content) == (204, b"")
            for one in (eve, elsewhere):
                assert one.calls(minted) == 401
                refusal(one.get("/api/auth/token"), 401, "invalid_token")
        assert acme.audit() == ["session.started", "session.ended"]

    def test_sign_out_clears_the_cookie(self, visitor: Client, session: Session) -> None:
        visitor.sign_in(account(session).email)
        answer = visitor.post("/api/auth/sign-out", headers=FROM_HERE)
        assert answer.headers["Set-Cookie"].startswith("session=; Max-Age=0; Path=/; HttpOnly")
        assert visitor.http.cookies.get("session") is None
        refusal(visitor.get("/api/auth/token"), 401, "missing_credentials")


class TestMintSessionToken:
    def test_access_token_can_be_verified_with_the_published_keys(self, visitor: Client, acme: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization)
        has_started = visitor.sign_in(user.email).json()["session"]
        answer = visitor.get("/api/auth/token")
        minted = answer.json()
        keys = jwt.PyJWKSet.from_dict(httpx.get(f"{visitor.http.base_url}/.well-known/jwks.json").json())
        kid = jwt.get_unverified_header(minted["token"])["kid"]
        claims = jwt.decode(
            minted["token"], keys[kid], algorithms=["ES256"], audience=factories.AUDIENCE, issuer=factories.ISSUER
        )
        assert (claims["sub"], claims["sid"], claims["org"]) == (user.id, has_started["id"], acme.id)
        assert claims["exp"] - claims["iat"] == 900
        assert minted["organizationId"] == acme.id
        assert datetime.fromisoformat(minted["expiresAt"]) == datetime.fromtimestamp(claims["exp"], UTC)
        assert "no-store" in answer.headers["Cache-Control"]

    def test_access_token_uses_the_only_or_the_chosen_organization(
        self, visitor: Client, acme: Tenant, globex: Tenant
    ) -> None:
        user = account(acme.session, "Eve")
        eve = visitor.signed_in(user)
        assert eve.get("/api/auth/token").json()["organizationId"] is None
        refusal(eve.ask(eve.jwt()), 403, "organization_not_provisioned")
        factories.membership(acme.session, acme.organization, user)
        assert eve.get("/api/auth/token").json()["organizationId"] == acme.id
        factories.membership(acme.session, globex.organization, user)
        assert eve.get("/api/auth/token").json()["organizationId"] == acme.id
        again = visitor.signed_in(user)
        refusal(again.ask(again.jwt()), 403, "no_organization_selected")

    def test_lost_membership_leaves_no_active_organization_until_chosen(
        self, visitor: Client, acme: Tenant, globex: Tenant
    ) -> None:
        user = account(acme.session, "Eve", acme.organization)
        eve = visitor.signed_in(user)
        factories.membership(acme.session, globex.organization, user)
        assert eve.get("/api/auth/token").json()["organizationId"] == acme.id
        acme.session.delete(acme.session.get_one(Membership, (acme.id, user.id)))
        acme.session.flush()
        assert eve.get("/api/auth/token").json()["organizationId"] is None
        refusal(eve.ask(eve.jwt()), 403, "no_organization_selected")
        assert eve.auth("org/set-active", organizationId=globex.id).status_code == 200
        assert eve.get("/api/auth/token").json()["organizationId"] == globex.id

    def test_access_token_never_outlives_its_session(self, visitor: Client, session: Session, later: Later) -> None:
        eve = visitor.signed_in(account(session))
        later(days=30, minutes=-5)
        minted = jwt.decode(eve.jwt(), options={"verify_signature": False})
        assert minted["exp"] - minted["iat"] <= 300
        later(minutes=6)
        refusal(eve.get("/api/auth/token"), 401, "token_expired")
