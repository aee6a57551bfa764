"""Attacks on mailed links and passwords: replays, use for another purpose, guesses, and enumeration of accounts."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from models.identity import OneTimeToken
from models.organizations import Membership
from rules.ids import new_id
from services.core.tokens import new_one_time_token, token_hash
from tests import factories
from tests.harness.accounts import PASSWORD, AccountFixture, account, ask, code, mailed, mailed_token, signs_in
from tests.harness.concurrency import at_once

INVALID = (401, "invalid_token")
ANOTHER = "eight green bicycles"


def confirm(accounts: AccountFixture, token: str, password: str = PASSWORD) -> httpx.Response:
    """Follow the link of a sign-up."""
    return ask(accounts.http, "POST", "/api/auth/verify-email", json={"token": token, "password": password})


class TestReplays:
    def signed_up(self, accounts: AccountFixture) -> tuple[str, str]:
        """Return an address that has signed up, and the token that was mailed there."""
        email = f"{new_id('new')}@example.com"
        body = {"name": "Eve", "email": email, "password": PASSWORD}
        assert ask(accounts.http, "POST", "/api/auth/sign-up", json=body).status_code == 202
        return email, mailed_token(accounts.session, email)

    def test_concurrent_confirmations_of_an_address_succeed_once(self, accounts: AccountFixture) -> None:
        _, token = self.signed_up(accounts)
        calls = [lambda: confirm(accounts, token)] * 5
        answers = sorted(code(answer) for answer in at_once(*calls))
        assert answers == [(200, None), *[(404, "not_found")] * 4]

    def test_concurrent_password_resets_succeed_once(self, accounts: AccountFixture) -> None:
        victim = account(accounts.session, accounts.http)
        ask(accounts.http, "POST", "/api/auth/forgot-password", json={"email": victim.user.email})
        token = mailed_token(accounts.session, victim.user.email)
        bodies = [{"token": token, "password": f"{number} green bicycles"} for number in ("three", "four", "five")]
        calls = [lambda body=body: ask(accounts.http, "POST", "/api/auth/reset-password", json=body) for body in bodies]
        answers = at_once(*calls)
        assert sorted(code(answer) for answer in answers) == [(204, None), *[(404, "not_found")] * 2]
        good = [signs_in(accounts, victim.user.email, body["password"]) for body in bodies]
        assert good == [answer.status_code == 204 for answer in answers]

    def test_link_is_valid_only_for_its_own_purpose(self, accounts: AccountFixture) -> None:
        _, confirming = self.signed_up(accounts)
        ask(accounts.http, "POST", "/api/auth/forgot-password", json={"email": accounts.owner.user.email})
        resetting = mailed_token(accounts.session, accounts.owner.user.email)
        reset = {"token": confirming, "password": ANOTHER}
        assert code(ask(accounts.http, "POST", "/api/auth/reset-password", json=reset)) == (404, "not_found")
        assert code(confirm(accounts, resetting)) == (404, "not_found")
        for token in (confirming, resetting):
            assert code(ask(accounts.http, "GET", "/api/auth/token", token)) == INVALID
            assert code(ask(accounts.http, "GET", "/v1/onboarding", token)) == INVALID
        assert code(confirm(accounts, confirming)) == (200, None)

    def test_expired_link_is_refused(self, accounts: AccountFixture) -> None:
        _, token = self.signed_up(accounts)
        row = OneTimeToken.token_hash == token_hash(token)
        accounts.session.execute(
            update(OneTimeToken).where(row).values(expires_at=factories.now() - timedelta(seconds=1))
        )
        assert code(confirm(accounts, token)) == (404, "not_found")
        assert code(confirm(accounts, new_one_time_token())) == (404, "not_found")

    def test_opening_a_link_does_not_consume_the_link(self, accounts: AccountFixture) -> None:
        _, token = self.signed_up(accounts)
        for _ in range(3):
            assert accounts.http.get("/verify", params={"token": token}).status_code == 200
        assert code(confirm(accounts, token)) == (200, None)

    def test_stranger_never_owns_the_address_of_another_person(self, accounts: AccountFixture) -> None:
        email = f"{new_id('new')}@example.com"
        tokens = {}
        for name, password in (("Mallory", ANOTHER), ("Eve", PASSWORD)):
            body = {"name": name, "email": email, "password": password}
            ask(accounts.http, "POST", "/api/auth/sign-up", json=body)
            tokens[name] = mailed_token(accounts.session, email)
        invited = {"email": email, "role": "member"}
        assert ask(accounts.http, "POST", "/v1/invitations", accounts.jwt, json=invited).status_code == 201
        assert code(confirm(accounts, tokens["Mallory"])) == (401, "wrong_credentials")
        assert not signs_in(accounts, email, ANOTHER)
        assert code(confirm(accounts, tokens["Eve"])) == (200, None)
        assert code(confirm(accounts, tokens["Mallory"], ANOTHER)) == (404, "not_found")
        assert [signs_in(accounts, email, password) for password in (ANOTHER, PASSWORD)] == [False, True]

    def test_replayed_write_requires_the_present_role(self, accounts: AccountFixture) -> None:
        admin = account(accounts.session, accounts.http, accounts.acme, role="admin")
        token, body = admin.sign_in(), {"name": "A key", "scopes": ["freeze:read"], "expiresAt": None}
        minted, once = admin.jwt(token), {"Idempotency-Key": "replayed"}
        first = ask(accounts.http, "POST", "/v1/api-keys", minted, json=body, headers=once)
        again = ask(accounts.http, "POST", "/v1/api-keys", minted, json=body, headers=once)
        assert first.json() == again.json()
        theirs = ask(accounts.http, "POST", "/v1/api-keys", accounts.jwt, json=body, headers=once)
        assert theirs.json()["secret"] != first.json()["secret"]
        mine = Membership.user_id == admin.user.id
        accounts.session.execute(update(Membership).where(mine).values(role="viewer"))
        refused = ask(accounts.http, "POST", "/v1/api-keys", minted, json=body, headers=once)
        assert code(refused) == (403, "insufficient_permission")
        ask(accounts.http, "POST", "/api/auth/sign-out", token)
        assert code(ask(accounts.http, "POST", "/v1/api-keys", minted, json=body, headers=once)) == INVALID


class TestAccountEnumeration:
    @pytest.mark.parametrize("path", ["sign-up", "forgot-password"])
    def test_known_and_unknown_addresses_are_indistinguishable(self, accounts: AccountFixture, path: str) -> None:
        known, unknown = accounts.owner.user.email, f"{new_id('new')}@example.com"
        answers = []
        for email in (known, unknown):
            body: dict[str, Any] = {"email": email}
            if path == "sign-up":
                body |= {"name": "Eve", "password": PASSWORD}
            answers.append(ask(accounts.http, "POST", f"/api/auth/{path}", json=body))
        shown = {(one.status_code, one.text.replace(known, "…").replace(unknown, "…")) for one in answers}
        assert len(shown) == 1
        assert bool(mailed(accounts.session, unknown)) == (path == "sign-up")

    def test_sign_in_does_not_reveal_whether_address_or_password_is_wrong(self, accounts: AccountFixture) -> None:
        waiting = f"{new_id('new')}@example.com"
        ask(accounts.http, "POST", "/api/auth/sign-up", json={"name": "Eve", "email": waiting, "password": PASSWORD})
        tries = {accounts.owner.user.email: ANOTHER, f"{new_id('new')}@example.com": ANOTHER, waiting: PASSWORD}
        answers = [
            ask(accounts.http, "POST", "/api/auth/sign-in", json={"email": email, "password": password})
            for email, password in tries.items()
        ]
        assert {code(answer) for answer in answers} == {(401, "wrong_credentials")}
        assert len({answer.json()["error"]["message"] for answer in answers}) == 1

    def test_password_guessing_locks_the_account(self, accounts: AccountFixture) -> None:
        victim = account(accounts.session, accounts.http)
        body = {"email": victim.user.email, "password": ANOTHER}
        for _ in range(10):
            assert code(ask(accounts.http, "POST", "/api/auth/sign-in", json=body))[0] == 401
        for password in (ANOTHER, PASSWORD):
            spent = ask(accounts.http, "POST", "/api/auth/sign-in", json={**body, "password": password})
            assert code(spent) == (429, "rate_limited")
            assert int(spent.headers["Retry-After"]) > 0
