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
from rules.web_addresses import ACCOUNT, AUTHORIZE, DEVICE, IMPORT, INVITATION, SIGN_IN, SIGN_OUT
from tests.web.people.conftest import PASSWORD, Mailed, SignedIn
from tests.web.people.forms import Person, set_cookie
from web.forms import max_form_bytes
from web.people import PAGES, PATHS

FORM_PATHS = sorted((page.path for page in PAGES if "POST" in (page.methods or ())), key=SIGN_OUT.__eq__)
"""The form that signs out comes last, so that the others are sent by a person who is signed in."""
FIELDS = ("email", "name", "user_code", "mailed", "id", "organization_id", "session_id", "do", "next")
LISTS = ("scope", "repository", "kind", "family")
"""Fields of forms, and those that a form may have several times."""
SAMPLES = (ACCOUNT, AUTHORIZE)
"""Pages where each field is wrong alone: one that reads them as all pages do, one that also reads some itself."""
PARAMETERS = ("token", "id", "user_code", "next")
READ_SEVERAL = (INVITATION, SIGN_IN, DEVICE)
"""Pages that read several parameters, or turn away a visitor who lacks one of them."""
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
def mallory(account: Callable[[str], User], signed_in: SignedIn) -> Person:
    return signed_in(account("Mallory"))


class TestForms:
    def test_form_of_another_site_is_refused(self, ada: Person) -> None:
        token = token_of(ada)
        for path, headers in product(FORM_PATHS, ELSEWHERE):
            answer = ada.client.post(path, data={"token": token}, headers=headers)
            assert answer.status_code == 403, (path, headers)
            assert FOREIGN in answer.text
        assert ada.open("/").title == "First steps"

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
        token = token_of(ada)
        for path, headers in product(
            FORM_PATHS, ({"Origin": ada.site}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"})
        ):
            shown = token_of(ada) if path == SIGN_OUT else token  # the first of the two forms has signed out
            answer = ada.client.post(path, data={"token": shown}, headers=headers)
            assert answer.status_code not in {403, 500}, (path, headers, answer.text)

    def test_malformed_form_is_refused_with_a_page(self, ada: Person) -> None:
        headers = {"Origin": ada.site}
        form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        token = token_of(ada)
        for path in FORM_PATHS:
            large = ada.client.post(path, data={"token": token, "email": "x" * 20_000}, headers=headers)
            json = ada.client.post(path, json={"token": token}, headers=headers)
            fits = path == IMPORT or max_form_bytes(path) > 20_000
            assert large.status_code in ({303, 422} if fits else {413}), path
            assert json.status_code == 403, path
            raw = b"token=" + token.encode() + b"&email=%ff%fe&name=\xff&user_code=%00"
            broken = ada.client.post(path, content=raw, headers=form)
            assert broken.status_code < 500, path
            for answer in (large, json, broken):
                assert answer.status_code == 303 or answer.headers["content-type"].startswith("text/html")

    @pytest.mark.parametrize(("value", "at_once"), [("\0", 9), ("x" * 5000, 3)], ids=["zero", "long"])
    def test_form_with_fields_beyond_the_input_limits_is_refused(self, ada: Person, value: str, at_once: int) -> None:
        """As many fields as a form holds are wrong at once: one function judges them all. On samples each alone."""
        token = token_of(ada)
        for path, fields in product(FORM_PATHS, (FIELDS, LISTS)):
            parts = [fields[first : first + at_once] for first in range(0, len(fields), at_once)]
            for names in parts + [(name,) for name in fields if path in SAMPLES]:
                data = {"token": token_of(ada) if path == SIGN_OUT else token, **dict.fromkeys(names, value)}
                answer = ada.client.post(path, data=data, headers={"Origin": ada.site})
                assert answer.status_code in {303, 400, 404, 422}, (path, names)


class TestPages:
    def test_page_is_not_framed_cached_or_sent_as_referrer(self, visitor: Person, ada: Person) -> None:
        for person, path in product((visitor, ada), PATHS):
            answer = person.client.get(path)
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] in {"no-referrer", "same-origin"}
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if answer.status_code != 303:
                policy = answer.headers["Content-Security-Policy"]
                for rule in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
                    assert rule in policy, path
                assert "script-src 'self';" in policy, path
                assert "unsafe" not in policy, path
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"

    def test_page_accepts_only_get_and_the_post_of_its_forms(self, visitor: Person) -> None:
        for path in PATHS:
            for method in ("PUT", "POST") if path not in FORM_PATHS else ("PUT",):
                answer = visitor.client.request(method, path)
                assert answer.status_code == 405, path
                assert answer.json()["error"]["code"] == "method_not_allowed"

    def test_page_hides_the_secret_of_the_browser_from_scripts(self, visitor: Person) -> None:
        for path in PATHS:
            visitor.client.cookies.clear()
            answer = visitor.client.get(path, follow_redirects=True)
            line = set_cookie(answer, "forms")
            assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(line.split("; ")), path


def test_malformed_address_of_a_page_is_refused_with_a_page(ada: Person) -> None:
    """All parameters are wrong at once where a page reads one of them at most; elsewhere each also alone."""
    zeros = "&".join(f"{name}=%00" for name in PARAMETERS)
    others = "&".join(f"{name}=%ff" for name in PARAMETERS[1:]) + "&token=" + "x" * 8000
    alone = [f"{name}={value}" for name in PARAMETERS for value in ("%00", "%ff")]
    for path in PATHS:
        for query in (zeros, others, *(alone if path in READ_SEVERAL else ())):
            answer = ada.client.get(f"{path}?{query}")
            assert answer.status_code in {200, 303, 400, 404, 422}, (path, query[:100], answer.text)


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
    visitor.client.cookies.delete("session")
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
