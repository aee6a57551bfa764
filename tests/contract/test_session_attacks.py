"""Attacks on sessions: cursors of other lists, and foreign pages that use a cookie. Fixation is in `tests/handlers`."""

import re
from typing import Any

import pytest

from schemas.contract import Operation, load_contract
from tests import factories
from tests.harness.accounts import AccountFixture, ask, code
from tests.harness.passwords import PASSWORD

CONTRACT = load_contract()
ORIGIN = factories.ISSUER
LISTS = [
    one
    for one in CONTRACT.operations.values()
    if any(parameter.name == "cursor" for parameter in one.parameters) and not one.accepts("SessionToken")
]
BY_COOKIE = [one for one in CONTRACT.operations.values() if one.accepts("SessionCookie") and one.effect == "write"]


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
