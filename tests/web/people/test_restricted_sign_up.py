"""`/sign-up` where accounts are for people who have been invited."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy.orm import Session

from app.main import create_app
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups
from tests.web.people.conftest import PASSWORD, SECRET_KEY, Mailed
from tests.web.people.forms import Person

RESTRICTED = "Accounts are for people who have been invited."


@pytest.fixture(scope="module")
def site_of_session(
    shared_database: psycopg.Connection[Any], redis_url: str, clock_of_pages: MovableClock
) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = product_config(
        address_of(shared_database), redis_url, web_url=url, secret_key=SECRET_KEY, sign_up="invitation"
    )
    parts = product_parts(clock=clock_of_pages, wakeups=RecordedWakeups())
    with serving(create_app(config, parts), listener) as served:
        yield served


def test_sign_up_page_says_what_applies_and_has_no_form(visitor: Person) -> None:
    page = visitor.open("/sign-up")
    assert RESTRICTED in page.text
    assert "Create account" not in page.text


def test_sign_up_is_refused_with_403_whether_the_account_exists(ada: Person, site: str) -> None:
    answers = []
    for email in ("ada@example.test", "grace@example.test"):
        body = {"name": "Grace", "email": email, "password": PASSWORD}
        answer = httpx.post(f"{site}/api/auth/sign-up", json=body)
        assert answer.status_code == 403
        answers.append({**answer.json()["error"], "requestId": ""})
    assert answers[0] == answers[1]
    assert (answers[0]["type"], answers[0]["code"]) == ("forbidden", "sign_up_restricted")


def test_invitation_leads_to_an_account_that_accepts_it(visitor: Person, session: Session, mailed: Mailed) -> None:
    acme = factories.organization(session, "Acme")
    token, _ = factories.invitation(session, acme, "grace@example.test")
    page = visitor.open("/invitation", token=token)
    form = visitor.open(page.links["Create an account"])
    assert form.answer.headers["Referrer-Policy"] == "no-referrer"
    assert form.form("Create account").fields["email"] == "grace@example.test"
    refused = visitor.press(form, "Create account", name="Mallory", email="mallory@example.test", password=PASSWORD)
    assert (refused.status, RESTRICTED in refused.text) == (403, True)
    sent = visitor.press(refused, "Create account", name="Grace", email="grace@example.test", password=PASSWORD)
    assert sent.status == 202
    visitor.press(visitor.open(mailed("grace@example.test")), "Confirm address", password=PASSWORD)
    joined = visitor.press(visitor.open("/invitation", token=token), "Accept invitation")
    assert joined.status == 200
