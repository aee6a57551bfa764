"""Attacks on mailed links: replays, and use for another purpose. Guesses and enumeration are in `tests/handlers`."""

import httpx
from sqlalchemy import update

from models.organizations import Membership
from rules.ids import new_id
from tests.harness.accounts import AccountFixture, account, ask, code, signs_in
from tests.harness.concurrency import at_once
from tests.harness.mails import mailed_token
from tests.harness.passwords import PASSWORD

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
