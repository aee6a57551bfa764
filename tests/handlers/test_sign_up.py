"""Operations of the tag Sign-in that mail a link: signing up, and choosing another password."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.identity import OneTimeToken
from models.organizations import User
from tests.handlers.accounts import EVE, HERE, OTHER, Client, accounts, confirmed
from tests.handlers.callers import Tenant, closed, refusal
from tests.harness.mails import mailed_token, mails_to
from tests.harness.passwords import PASSWORD, account

Later = Callable[..., None]


class TestSignUp:
    def test_sign_up_mails_a_link_that_creates_the_account(self, visitor: Client, session: Session) -> None:
        answer = visitor.auth("sign-up", **EVE)
        assert (answer.status_code, answer.json()) == (202, {"email": "eve@example.com"})
        [(template, fields)] = mails_to(session, "eve@example.com")
        assert template == "verify_email"
        assert fields["url"].startswith(f"{HERE}/verify?token=")
        assert accounts(session) == 0
        refusal(visitor.sign_in("eve@example.com"), 401, "wrong_credentials")
        assert confirmed(visitor, mailed_token(session, "eve@example.com")).status_code == 200
        assert visitor.sign_in("eve@example.com").status_code == 200

    def test_sign_up_of_a_known_address_is_revealed_only_by_mail(self, visitor: Client, session: Session) -> None:
        user = account(session)
        known = visitor.auth("sign-up", **{**EVE, "email": user.email})
        unknown = visitor.auth("sign-up", **EVE)
        assert (known.status_code, known.json()) == (unknown.status_code, {"email": user.email})
        assert known.headers.keys() == unknown.headers.keys()
        [(template, fields)] = mails_to(session, user.email)
        assert template == "known_address"
        assert fields == {"sign_in_url": f"{HERE}/sign-in", "forgot_url": f"{HERE}/forgot"}
        assert visitor.sign_in(user.email).status_code == 200

    def test_sign_up_ignores_the_case_of_the_address(self, visitor: Client, session: Session) -> None:
        user = account(session)
        visitor.auth("sign-up", **{**EVE, "email": user.email.upper()})
        assert [template for template, _ in mails_to(session, user.email)] == ["known_address"]

    def test_followed_link_decides_among_several_sign_ups_of_an_address(
        self, visitor: Client, session: Session
    ) -> None:
        visitor.auth("sign-up", **EVE)
        own = mailed_token(session, "eve@example.com")
        visitor.auth("sign-up", **{**EVE, "name": "Mallory", "password": OTHER})
        foreign = mailed_token(session, "eve@example.com")
        assert confirmed(visitor, own).json()["name"] == "Eve Adams"
        refusal(confirmed(visitor, foreign, OTHER), 404, "not_found")
        assert visitor.sign_in("eve@example.com").status_code == 200
        refusal(visitor.sign_in("eve@example.com", OTHER), 401, "wrong_credentials")

    def test_sign_up_rejects_a_weak_password_with_its_own_code(self, visitor: Client, session: Session) -> None:
        cases: list[str | None] = ["short", "password123", "Eve@2026!eve", "x" * 201, "", None]
        for password in cases:
            error = refusal(visitor.auth("sign-up", **{**EVE, "password": password}), 422, "weak_password")
            assert [(row["path"], row["code"]) for row in error["details"]] == [("/password", "weak_password")]
            assert mails_to(session, "eve@example.com") == []

    def test_sign_up_rejects_an_invalid_address(self, visitor: Client) -> None:
        cases: list[str] = [
            "eve",
            "eve@example",
            "eve@@example.com",
            "eve@example.com\r\nBcc: mallory@example.com",
            "Eve <eve@e.com>",
        ]
        for email in cases:
            refusal(visitor.auth("sign-up", **{**EVE, "email": email}), 422, "validation_failed")

    @pytest.mark.parametrize("name", ["", "   ", "Eve\nAdams", "x" * 101])
    def test_sign_up_rejects_an_invalid_name(self, visitor: Client, name: str) -> None:
        refusal(visitor.auth("sign-up", **{**EVE, "name": name}), 422, "validation_failed")

    @pytest.mark.parametrize("known", [True, False])
    def test_sign_ups_with_an_address_are_limited_to_five_an_hour(
        self, visitor: Client, session: Session, later: Later, known: bool
    ) -> None:
        email = account(session).email if known else "eve@example.com"
        first_try = time.monotonic()
        for _ in range(5):
            assert visitor.auth("sign-up", **{**EVE, "email": email}).status_code == 202
        closed(visitor.auth("sign-up", **{**EVE, "email": email}), 3600, since=first_try)
        later(hours=1)
        assert visitor.auth("sign-up", **{**EVE, "email": email}).status_code == 202

    def test_strangers_do_not_keep_the_owner_of_an_address_from_signing_up(self, visitor: Client) -> None:
        answers = [
            visitor.post("/api/auth/sign-up", EVE, headers={"X-Forwarded-For": f"203.0.113.{network}"}).status_code
            for network in range(3)
            for _ in range(6)
        ]
        assert answers == ([202] * 5 + [429]) * 3
        assert visitor.auth("sign-up", **EVE).status_code == 202

    def test_sign_ups_with_an_address_are_limited_over_all_networks(self, visitor: Client) -> None:
        for network in range(20):
            headers = {"X-Forwarded-For": f"203.0.113.{network}"}
            assert visitor.post("/api/auth/sign-up", EVE, headers=headers).status_code == 202
        refusal(visitor.auth("sign-up", **EVE), 429, "rate_limited")

    def test_sign_up_stores_the_password_only_as_a_hash_until_confirmation(
        self, visitor: Client, session: Session
    ) -> None:
        visitor.auth("sign-up", **EVE)
        waiting = session.scalars(select(OneTimeToken)).one()
        assert waiting.details["passwordHash"].startswith("$argon2id$")
        confirmed(visitor, mailed_token(session, "eve@example.com"))
        session.expire_all()
        assert session.scalars(select(OneTimeToken)).one().details == {}


class TestForgotPassword:
    def test_sixth_request_within_an_hour_is_answered_by_the_fifth_mail(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        user = account(session)
        for _ in range(7):
            assert visitor.auth("forgot-password", email=user.email).status_code == 202
        assert len(mails_to(session, user.email)) == 5
        reset = {"token": mailed_token(session, user.email), "password": OTHER}
        assert visitor.auth("reset-password", **reset).status_code == 204

    def test_request_after_half_an_hour_is_answered_by_a_new_mail(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        user = account(session)
        for _ in range(5):
            visitor.auth("forgot-password", email=user.email)
        later(minutes=31)
        visitor.auth("forgot-password", email=user.email)
        assert len(mails_to(session, user.email)) == 6

    def test_sign_ups_of_strangers_do_not_keep_the_owner_from_a_reset_mail(
        self, visitor: Client, session: Session
    ) -> None:
        user = account(session)
        for _ in range(6):
            visitor.auth("sign-up", **{**EVE, "email": user.email})
        assert visitor.auth("forgot-password", email=user.email).status_code == 202
        assert mails_to(session, user.email)[-1][0] == "reset_password"

    def test_forgot_password_mails_a_link_to_existing_accounts_only(self, visitor: Client, session: Session) -> None:
        user = account(session)
        known = visitor.auth("forgot-password", email=user.email.title())
        unknown = visitor.auth("forgot-password", email="nobody@example.com")
        assert (known.status_code, unknown.status_code) == (202, 202)
        assert known.headers.keys() == unknown.headers.keys()
        [(template, fields)] = mails_to(session, user.email)
        assert template == "reset_password"
        assert fields["url"].startswith(f"{HERE}/reset?token=")
        assert mails_to(session, "nobody@example.com") == []
        assert session.scalar(select(func.count()).select_from(OneTimeToken)) == 1


class TestResetPassword:
    def asked(self, visitor: Client, session: Session, user: User) -> str:
        visitor.auth("forgot-password", email=user.email)
        return mailed_token(session, user.email)

    def test_reset_password_changes_the_password(self, visitor: Client, acme: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization)
        answer = visitor.auth("reset-password", token=self.asked(visitor, acme.session, user), password=OTHER)
        assert (answer.status_code, answer.content) == (204, b"")
        refusal(visitor.sign_in(user.email), 401, "wrong_credentials")
        assert visitor.sign_in(user.email, OTHER).status_code == 200
        assert "user.password_changed" in acme.audit()

    def test_reset_password_ends_every_session_of_the_account_only(self, visitor: Client, acme: Tenant) -> None:
        user, other = account(acme.session, "Eve", acme.organization), account(acme.session, "Ada", acme.organization)
        browser, device, hers = (visitor.signed_in(one) for one in (user, user, other))
        jwt = device.jwt()
        assert device.calls(jwt) == 200
        visitor.auth("reset-password", token=self.asked(visitor, acme.session, user), password=OTHER)
        for one in (browser, device):
            refusal(one.get("/api/auth/token"), 401, "invalid_token")
        assert device.calls(jwt) == 401
        assert hers.calls() == 200

    def test_reset_link_is_used_once_within_an_hour_and_cancels_the_others(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        user = account(session)
        first, second = self.asked(visitor, session, user), self.asked(visitor, session, user)
        assert visitor.auth("reset-password", token=first, password=OTHER).status_code == 204
        for token in (first, second, "x"):
            refusal(visitor.auth("reset-password", token=token, password=PASSWORD), 404, "not_found")
        third = self.asked(visitor, session, user)
        later(hours=1)
        refusal(visitor.auth("reset-password", token=third, password=PASSWORD), 404, "not_found")

    def test_weak_password_does_not_consume_the_reset_link(self, visitor: Client, session: Session) -> None:
        user = account(session, "Eveline")
        token = self.asked(visitor, session, user)
        for weak in ("short", "1234567890", user.email.partition("@")[0] + "!!"):
            refusal(visitor.auth("reset-password", token=token, password=weak), 422, "weak_password")
        assert visitor.auth("reset-password", token=token, password=OTHER).status_code == 204

    def test_reset_password_unlocks_a_locked_account(self, visitor: Client, session: Session) -> None:
        user = account(session)
        for _ in range(10):
            visitor.sign_in(user.email, "not the password")
        refusal(visitor.sign_in(user.email), 429, "rate_limited")
        visitor.auth("reset-password", token=self.asked(visitor, session, user), password=OTHER)
        assert visitor.sign_in(user.email, OTHER).status_code == 200

    def test_reset_password_confirms_the_address(self, visitor: Client, session: Session) -> None:
        user = account(session)
        user.email_verified_at = None
        session.flush()
        visitor.auth("reset-password", token=self.asked(visitor, session, user), password=OTHER)
        assert visitor.sign_in(user.email, OTHER).status_code == 200
