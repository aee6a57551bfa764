"""Confirming an address: by a mailed link and the password of its sign-up, and by neither alone."""

import time
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import User
from tests.handlers.accounts import EVE, OTHER, Client, accounts, confirmed
from tests.handlers.callers import closed, refusal
from tests.harness.concurrency import at_once
from tests.harness.mails import mailed_token
from tests.harness.passwords import PASSWORD

Later = Callable[..., None]


class TestVerifyEmail:
    def test_verify_email_creates_the_account_without_signing_in(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **{**EVE, "email": "Eve@Example.com", "name": " Eve Adams "})
        answer = confirmed(visitor, mailed_token(session, "eve@example.com"))
        user = session.scalars(select(User)).one()
        assert answer.json() == {
            "id": user.id,
            "name": "Eve Adams",
            "email": "eve@example.com",
            "createdAt": answer.json()["createdAt"],
        }
        assert user.email_verified_at == user.created_at
        assert "set-cookie" not in answer.headers

    def test_verification_link_is_used_once_even_concurrently(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **EVE)
        token = mailed_token(session, "eve@example.com")
        answers = at_once(*[lambda: confirmed(visitor, token)] * 4)
        assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
        assert accounts(session) == 1

    def test_concurrent_links_of_an_address_create_one_account(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **EVE)
        one = mailed_token(session, "eve@example.com")
        visitor.auth("sign-up", **EVE)
        other = mailed_token(session, "eve@example.com")
        answers = at_once(*[lambda token=token: confirmed(visitor, token) for token in (one, other)])
        assert sorted(answer.status_code for answer in answers) == [200, 404]

    def test_verification_link_expires_after_a_day(self, visitor: Client, session: Session, later: Later) -> None:
        visitor.auth("sign-up", **EVE)
        later(hours=24)
        refusal(confirmed(visitor, mailed_token(session, "eve@example.com")), 404, "not_found")
        assert accounts(session) == 0

    def test_following_the_link_of_a_stranger_creates_no_account(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **{**EVE, "name": "Mallory", "password": OTHER})
        theirs = mailed_token(session, "eve@example.com")
        visitor.auth("sign-up", **EVE)
        mine = mailed_token(session, "eve@example.com")
        refusal(confirmed(visitor, theirs, PASSWORD), 401, "wrong_credentials")
        assert accounts(session) == 0
        assert confirmed(visitor, mine).json()["name"] == "Eve Adams"
        refusal(visitor.sign_in("eve@example.com", OTHER), 401, "wrong_credentials")
        refusal(confirmed(visitor, theirs, OTHER), 404, "not_found")
        assert visitor.sign_in("eve@example.com").status_code == 200

    def test_password_alone_creates_no_account(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **{**EVE, "password": OTHER})
        refusal(confirmed(visitor, "x" * 43, OTHER), 404, "not_found")
        refusal(visitor.auth("verify-email", password=OTHER), 400, "missing_parameter")
        assert accounts(session) == 0

    def test_link_without_a_password_creates_no_account(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **EVE)
        token = mailed_token(session, "eve@example.com")
        refusal(visitor.auth("verify-email", token=token), 400, "missing_parameter")
        for no_password in ("", None, "x" * 1001):
            error = refusal(visitor.auth("verify-email", token=token, password=no_password), 422, "validation_failed")
            assert error["details"][0]["path"] == "/password"
        assert accounts(session) == 0

    def test_wrong_password_does_not_consume_the_verification_link(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **EVE)
        token = mailed_token(session, "eve@example.com")
        for wrong in (OTHER, PASSWORD.upper(), f"{PASSWORD} "):
            refusal(confirmed(visitor, token, wrong), 401, "wrong_credentials")
        assert accounts(session) == 0
        assert confirmed(visitor, token).status_code == 200

    def test_ten_wrong_passwords_lock_every_link_of_the_address(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        tokens = []
        for _ in range(2):
            visitor.auth("sign-up", **EVE)
            tokens.append(mailed_token(session, "eve@example.com"))
        first_try = time.monotonic()
        for token in tokens * 5:
            refusal(confirmed(visitor, token, OTHER), 401, "wrong_credentials")
        closed(confirmed(visitor, tokens[0]), 900, since=first_try)
        assert accounts(session) == 0
        later(minutes=15)
        assert confirmed(visitor, tokens[0]).status_code == 200

    def test_right_password_creates_the_account_among_concurrent_guesses(
        self, visitor: Client, session: Session
    ) -> None:
        visitor.auth("sign-up", **{**EVE, "name": "Mallory", "password": OTHER})
        theirs = mailed_token(session, "eve@example.com")
        visitor.auth("sign-up", **EVE)
        mine = mailed_token(session, "eve@example.com")
        guesses = [lambda: confirmed(visitor, theirs)] * 3
        first, *others = at_once(lambda: confirmed(visitor, mine), *guesses)
        assert first.status_code == 200
        assert {answer.status_code for answer in others} <= {401, 404}
        assert accounts(session) == 1
        assert visitor.sign_in("eve@example.com").status_code == 200

    def test_verifications_and_sign_ins_share_the_limit_of_a_network_address(
        self, visitor: Client, session: Session
    ) -> None:
        visitor.auth("sign-up", **EVE)
        token = mailed_token(session, "eve@example.com")
        for number in range(29):
            refusal(visitor.sign_in(f"{number}@example.com"), 401, "wrong_credentials")
        refusal(confirmed(visitor, token, OTHER), 401, "wrong_credentials")
        refusal(confirmed(visitor, token), 429, "rate_limited")
        refusal(visitor.sign_in("30@example.com"), 429, "rate_limited")

    def test_failed_sign_ins_do_not_prevent_confirmation_and_sign_in(self, visitor: Client, session: Session) -> None:
        visitor.auth("sign-up", **EVE)
        for _ in range(10):
            refusal(visitor.sign_in("eve@example.com", OTHER), 401, "wrong_credentials")
        refusal(visitor.sign_in("eve@example.com"), 429, "rate_limited")
        assert confirmed(visitor, mailed_token(session, "eve@example.com")).status_code == 200
        assert visitor.sign_in("eve@example.com").status_code == 200
