"""Attacks on sessions: fixation, foreign pages that use a cookie, and sign-ins that lead elsewhere."""

import re
from typing import Any

import pytest
from sqlalchemy import select

from models.organizations import LoginSession
from rules.ids import new_id
from schemas.contract import Operation, load_contract
from services.core.tokens import new_session_token
from tests import factories
from tests.harness.accounts import PASSWORD, AccountFixture, account, ask, code, mailed_token, signs_in

CONTRACT = load_contract()
ORIGIN = factories.ISSUER
INVALID = (401, "invalid_token")
ANOTHER = "eight green bicycles"
LISTS = [
    one
    for one in CONTRACT.operations.values()
    if any(parameter.name == "cursor" for parameter in one.parameters) and not one.accepts("SessionToken")
]
BY_COOKIE = [one for one in CONTRACT.operations.values() if one.accepts("SessionCookie") and one.effect == "write"]


class TestFixation:
    def test_planted_session_token_stays_invalid_after_sign_in(self, accounts: AccountFixture) -> None:
        planted = new_session_token()
        given = accounts.owner.sign_in(Cookie=f"session={planted}", Authorization=f"Bearer {planted}")
        assert given != planted
        assert code(ask(accounts.http, "GET", "/api/auth/sessions", planted)) == INVALID

    def test_planted_session_of_the_attacker_is_not_reused_by_sign_in(self, accounts: AccountFixture) -> None:
        mallory = account(accounts.session, accounts.http)
        planted = mallory.sign_in()
        given = accounts.owner.sign_in(Cookie=f"session={planted}")
        whose = [ask(accounts.http, "GET", "/api/auth/sessions", token).json()["data"] for token in (planted, given)]
        assert not {one["id"] for one in whose[0]} & {one["id"] for one in whose[1]}

    def test_every_sign_in_starts_a_new_session(self, accounts: AccountFixture) -> None:
        first, second = accounts.owner.sign_in(), accounts.owner.sign_in()
        assert first != second
        ask(accounts.http, "POST", "/api/auth/sign-out", first)
        assert code(ask(accounts.http, "GET", "/api/auth/sessions", first)) == INVALID
        assert code(ask(accounts.http, "GET", "/api/auth/sessions", second)) == (200, None)

    def test_access_tokens_end_with_their_session_at_once(self, accounts: AccountFixture) -> None:
        token = accounts.owner.sign_in()
        minted = accounts.owner.jwt(token)
        assert code(ask(accounts.http, "GET", "/v1/onboarding", minted)) == (200, None)
        assert code(ask(accounts.http, "POST", "/api/auth/sign-out", token)) == (204, None)
        for _ in range(3):
            assert code(ask(accounts.http, "GET", "/v1/onboarding", minted)) == INVALID
            assert code(ask(accounts.http, "GET", "/api/auth/token", token)) == INVALID

    def test_password_reset_ends_every_session(self, accounts: AccountFixture) -> None:
        victim = account(accounts.session, accounts.http, accounts.acme)
        stolen, minted = victim.sign_in(), victim.jwt()
        ask(accounts.http, "POST", "/api/auth/forgot-password", json={"email": victim.user.email})
        body = {"token": mailed_token(accounts.session, victim.user.email), "password": ANOTHER}
        assert code(ask(accounts.http, "POST", "/api/auth/reset-password", json=body)) == (204, None)
        assert code(ask(accounts.http, "GET", "/api/auth/token", stolen)) == INVALID
        assert code(ask(accounts.http, "GET", "/v1/onboarding", minted)) == INVALID
        assert not signs_in(accounts, victim.user.email)
        assert signs_in(accounts, victim.user.email, ANOTHER)

    def test_foreign_session_cannot_be_ended_or_moved(self, accounts: AccountFixture) -> None:
        mallory = account(accounts.session, accounts.http)
        token = mallory.sign_in()
        victims = accounts.session.scalars(
            select(LoginSession.id).where(LoginSession.user_id == accounts.owner.user.id)
        ).all()
        answers = [
            ask(accounts.http, "DELETE", f"/api/auth/sessions/{one}", token) for one in (victims[0], new_id("ses"))
        ]
        assert [code(answer) for answer in answers] == [(404, "not_found")] * 2
        bodies = [{"organizationId": one} for one in (accounts.acme.id, new_id("org"))]
        answers += [ask(accounts.http, "POST", "/api/auth/org/set-active", token, json=body) for body in bodies]
        assert len({answer.json()["error"]["message"] for answer in answers[2:]}) == 1
        assert [code(answer) for answer in answers[2:]] == [(404, "not_found")] * 2
        assert code(ask(accounts.http, "GET", "/api/auth/sessions", accounts.token)) == (200, None)


class TestCursors:
    @pytest.fixture
    def cursor(self, accounts: AccountFixture) -> str:
        """Return a cursor of the owner's sessions, of which there are several."""
        accounts.owner.sign_in()
        page = ask(accounts.http, "GET", "/api/auth/sessions", accounts.token, params={"limit": 1}).json()
        assert page["nextCursor"], "there is only one session"
        return str(page["nextCursor"])

    def test_cursor_of_another_person_is_refused(self, accounts: AccountFixture, cursor: str) -> None:
        mallory = account(accounts.session, accounts.http, accounts.acme).sign_in()
        good = ask(accounts.http, "GET", "/api/auth/sessions", accounts.token, params={"cursor": cursor})
        assert code(good) == (200, None)
        stolen = ask(accounts.http, "GET", "/api/auth/sessions", mallory, params={"cursor": cursor})
        assert code(stolen) == (400, "invalid_cursor")
        for place in range(0, len(cursor) - 4, 7):
            bent = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
            answer = ask(accounts.http, "GET", "/api/auth/sessions", accounts.token, params={"cursor": bent})
            assert code(answer) == (400, "invalid_cursor")

    def test_cursor_of_another_list_is_refused(self, accounts: AccountFixture, cursor: str) -> None:
        made = {
            "{freezeId}": factories.freeze(accounts.session, accounts.acme).id,
            "{repoId}": factories.repository(accounts.session, accounts.acme, f"acme/{new_id('rep')}").id,
            "{webhookId}": factories.webhook(accounts.session, accounts.acme).id,
        }
        for operation in LISTS:
            path = re.sub(r"\{\w+\}", lambda found: made[found[0]], operation.path)
            answer = ask(accounts.http, operation.method, path, accounts.jwt, params={"cursor": cursor})
            assert code(answer) == (400, "invalid_cursor"), operation.id


OF_FOREIGN_PAGES: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "null"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "same-site"},
    {"Origin": "null", "Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://elsewhere.example"},
    {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "same-origin"},
    {"Origin": ORIGIN.replace("http:", "https:")},
    {"Origin": ORIGIN + ".elsewhere.example"},
    {"Origin": ORIGIN.rpartition(":")[0]},
    {"Origin": ORIGIN.replace("://", "://elsewhere.example@")},
    {"Referer": ORIGIN + "/"},
    {"Origin": "https://elsewhere.example", "Referer": ORIGIN + "/", "X-Forwarded-Host": "elsewhere.example"},
)
"""Headers of requests that a page elsewhere has a browser send."""


class TestForeignPages:
    @pytest.mark.parametrize("operation", BY_COOKIE, ids=lambda one: one.id)
    def test_foreign_page_changes_nothing_with_the_cookie_of_the_victim(
        self, accounts: AccountFixture, operation: Operation
    ) -> None:
        path = re.sub(r"\{\w+\}", "ses_x", operation.path)
        cookie = {"Cookie": f"session={accounts.token}"}
        body = {"name": "Acme", "organizationId": accounts.acme.id, "userCode": "x", "decision": "approve"}
        sent: list[dict[str, Any]] = [{}, {"json": body}, {"data": body}]
        for headers in OF_FOREIGN_PAGES:
            for extra in sent:
                answer = accounts.http.request(operation.method, path, headers={**cookie, **headers}, **extra)
                assert code(answer) == (403, "origin_not_allowed"), headers
        assert code(ask(accounts.http, "GET", "/api/auth/sessions", accounts.token)) == (200, None)

    def test_foreign_page_cannot_sign_a_person_in(self, accounts: AccountFixture) -> None:
        raw = f'{{"email": "{accounts.owner.user.email}", "password": "{PASSWORD}"}}'
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = accounts.http.post("/api/auth/sign-in", content=raw, headers={"Content-Type": media})
            assert code(answer) == (400, "unsupported_content_type")
            assert "Set-Cookie" not in answer.headers

    @pytest.mark.parametrize("path", ["/api/auth/sign-in", "/api/auth/token", "/v1/freezes", "/v1/api-keys"])
    def test_foreign_page_gets_no_cors_permission(self, accounts: AccountFixture, path: str) -> None:
        asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
        for method in ("OPTIONS", "GET", "POST"):
            headers = {**asked, "Cookie": f"session={accounts.token}"}
            answer = accounts.http.request(method, path, headers=headers)
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")]

    def test_session_cookie_is_hidden_from_scripts_and_foreign_forms(self, accounts: AccountFixture) -> None:
        body = {"email": accounts.owner.user.email, "password": PASSWORD}
        answer = ask(accounts.http, "POST", "/api/auth/sign-in", json=body)
        accounts.http.cookies.clear()
        name, *attributes = answer.headers["Set-Cookie"].split("; ")
        assert name == f"session={answer.json()['sessionToken']}"
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes)
        assert not [one for one in attributes if one.startswith("Domain")]
        assert answer.headers["Cache-Control"] == "no-store"
        out = accounts.http.post(
            "/api/auth/sign-out",
            headers={"Cookie": name, "Origin": ORIGIN},
        )
        assert out.status_code == 204
        assert out.headers["Set-Cookie"].startswith("session=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax")

    @pytest.mark.parametrize("path", ["/sign-in", "/sign-up", "/forgot", "/device", "/invitation", "/reset", "/verify"])
    def test_foreign_page_cannot_frame_a_page_of_the_service(self, accounts: AccountFixture, path: str) -> None:
        page = accounts.http.get(path, headers={"Cookie": f"session={accounts.token}"})
        assert page.status_code in {200, 303, 404}, page.text
        if page.status_code != 303:
            assert page.headers["Content-Type"].startswith("text/html"), f"{path} is no page"
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
            assert "script-src 'self';" in page.headers["Content-Security-Policy"]
