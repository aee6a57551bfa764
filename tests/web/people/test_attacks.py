"""What other sites, other browsers and odd clients may try with every page for people."""

import logging
import re
from collections.abc import Callable
from itertools import product

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.organizations import User
from tests.web.people.conftest import PASSWORD, Mailed, Visit
from tests.web.people.forms import Person, set_cookie
from tests.web.people.test_sign_in import open_sessions
from web.people import PAGES, PATHS

FORM_PATHS = [page.path for page in PAGES if "POST" in (page.methods or ())]
FOREIGN = "The form was not sent from the page that showed it, in the same browser"


ELSEWHERE: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "https://evil.test"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://127.0.0.1.evil.test"},
    {"Origin": "null"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
)
"""Headers of requests that no page of ours has caused."""


def token_of(person: Person) -> str:
    """Return the forms' token that the browser is shown."""
    return person.open("/device").forms[0].fields["token"]


def test_every_page_is_mounted(visitor: Person) -> None:
    assert {visitor.client.get(path).headers["content-type"] for path in PATHS} == {"text/html; charset=utf-8"}


@pytest.fixture
def mallory(account: Callable[[str], User], visit: Visit) -> Person:
    account("Mallory")
    person = visit()
    person.sign_in("mallory@example.test", PASSWORD)
    return person


class TestForms:
    def test_form_of_another_site_is_refused(self, ada: Person) -> None:
        token = token_of(ada)
        for path, headers in product(FORM_PATHS, ELSEWHERE):
            answer = ada.client.post(path, data={"token": token}, headers=headers)
            assert answer.status_code == 403, (path, headers)
            assert FOREIGN in answer.text
        assert ada.open("/").title == "Your account"

    def test_form_with_a_token_of_another_browser_is_refused(self, ada: Person, mallory: Person) -> None:
        for path, token in product(FORM_PATHS, ("", "0" * 64, "ü", token_of(mallory))):
            answer = ada.client.post(path, data={"token": token}, headers={"Origin": ada.site})
            assert answer.status_code == 403, (path, token)

    def test_form_in_a_browser_with_a_planted_secret_is_refused(self, ada: Person, mallory: Person) -> None:
        token = token_of(mallory)
        ada.client.cookies.set("forms", mallory.client.cookies["forms"], domain="127.0.0.1", path="/")
        for path in FORM_PATHS:
            answer = ada.client.post(path, data={"token": token}, headers={"Origin": ada.site})
            assert answer.status_code == 403, path

    def test_form_of_a_page_of_the_service_is_accepted(self, ada: Person) -> None:
        for path, headers in product(
            FORM_PATHS, ({"Origin": ada.site}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"})
        ):
            answer = ada.client.post(path, data={"token": token_of(ada)}, headers=headers)
            assert answer.status_code not in {403, 500}, (path, headers, answer.text)

    def test_malformed_form_is_refused_with_a_page(self, ada: Person) -> None:
        headers = {"Origin": ada.site}
        form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        for path in FORM_PATHS:
            large = ada.client.post(path, data={"token": token_of(ada), "email": "x" * 20_000}, headers=headers)
            json = ada.client.post(path, json={"token": token_of(ada)}, headers=headers)
            assert (large.status_code, json.status_code) == (413, 403), path
            raw = b"token=" + token_of(ada).encode() + b"&email=%ff%fe&name=\xff&user_code=%00"
            broken = ada.client.post(path, content=raw, headers=form)
            assert broken.status_code < 500, path
            for answer in (large, json, broken):
                assert answer.status_code == 303 or answer.headers["content-type"].startswith("text/html")

    def test_form_with_fields_beyond_the_input_limits_is_refused(self, ada: Person) -> None:
        names = ("email", "name", "user_code", "mailed", "id", "organization_id", "session_id", "do", "next")
        for path, name, value in product(FORM_PATHS, names, ("\0", "x" * 5000)):
            answer = ada.client.post(path, data={"token": token_of(ada), name: value}, headers={"Origin": ada.site})
            assert answer.status_code in {303, 400, 404, 422}, (path, name, value)


@pytest.mark.parametrize("path", PATHS)
class TestPages:
    def test_page_is_not_framed_cached_or_sent_as_referrer(self, visitor: Person, ada: Person, path: str) -> None:
        for person in (visitor, ada):
            answer = person.client.get(path)
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] in {"no-referrer", "same-origin"}
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if answer.status_code != 303:
                policy = answer.headers["Content-Security-Policy"]
                for rule in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
                    assert rule in policy
                assert "script-src 'self';" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"

    def test_page_accepts_only_get_and_the_post_of_its_forms(self, visitor: Person, path: str) -> None:
        for method in ("PUT", "POST") if path not in FORM_PATHS else ("PUT",):
            answer = visitor.client.request(method, path)
            assert answer.status_code == 405
            assert answer.json()["error"]["code"] == "method_not_allowed"

    def test_page_hides_the_secret_of_the_browser_from_scripts(self, visitor: Person, path: str) -> None:
        answer = visitor.client.get(path, follow_redirects=True)
        line = set_cookie(answer, "forms")
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(line.split("; "))


def test_malformed_address_of_a_page_is_refused_with_a_page(ada: Person) -> None:
    for path in PATHS:
        for query in (
            "token=%00",
            "token=%ff",
            "id=%00",
            "user_code=%00",
            "next=%00",
            "notice=%00",
            "token=" + "x" * 8000,
        ):
            answer = ada.client.get(f"{path}?{query}")
            assert answer.status_code in {200, 303, 400, 404, 422}, (path, query, answer.text)


def test_session_cookie_does_not_authorize_calls_of_other_sites(ada: Person, session: Session) -> None:
    answer = ada.client.post("/api/auth/sign-out", headers={"Origin": "https://evil.test"})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"
    assert len(open_sessions(session)) == 1


def test_passwords_and_tokens_are_stored_in_no_row_log_or_address(
    visitor: Person, mailed: Mailed, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fields = {"name": "Grace", "email": "grace@example.test", "password": PASSWORD}
    seen: list[httpx.Response] = []
    visitor.client.event_hooks["response"].append(seen.append)
    visitor.press(visitor.open("/sign-up"), "Create account", **fields)
    verify = mailed("grace@example.test").partition("token=")[2]
    shown = visitor.open("/verify", token=verify)
    visitor.press(shown, "Confirm address", password="a secret of somebody else")
    visitor.press(shown, "Confirm address", password=PASSWORD)
    visitor.sign_in("grace@example.test", "another secret of mine")
    visitor.sign_in("grace@example.test", PASSWORD)
    signed_in = visitor.session or ""
    visitor.press(visitor.open("/forgot"), "Send reset link", email="grace@example.test")
    reset = mailed("grace@example.test").partition("token=")[2]
    visitor.press(visitor.open("/reset", token=reset), "Change password", password="seven slow trams in May")
    mistaken = ["another secret of mine", "a secret of somebody else"]
    secrets = [PASSWORD, *mistaken, "seven slow trams in May", verify, reset, signed_in]
    assert all(secrets)
    tables = [row[0] for row in session.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))]
    kept = "".join(str(session.execute(text(f"SELECT t::text FROM {table} t")).all()) for table in tables)
    of_the_test = {"httpx", "httpcore", "uvicorn"}
    ours = "".join(record.getMessage() for record in caplog.records if record.name.split(".")[0] not in of_the_test)
    addresses = [re.sub(r"^(/verify|/reset)\?token=.*", r"\1", str(answer.url.raw_path, "ascii")) for answer in seen]
    led = [answer.headers.get("location", "") for answer in seen]
    assert [secret for secret in secrets if secret in kept] == []
    assert [secret for secret in secrets if secret in ours] == []
    assert [secret for secret in secrets if secret in "".join([*addresses, *led])] == []
