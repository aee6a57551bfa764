"""Where people come by https, no cookie travels by anything else, and no other host of the domain can set one."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import psycopg
import pytest
from redis import Redis

from app.main import create_app
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.web.people.conftest import PASSWORD
from tests.web.people.forms import Form, Page, set_cookie
from tests.web.people.test_sign_in import grace

__all__ = ["grace"]

WEB = "https://freeze.test"


def send(http: httpx.Client, form: Form, cookies: dict[str, str], **fields: str) -> httpx.Response:
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    http.cookies.clear()
    return http.post(form.action, data={**form.fields, **fields}, headers={"Origin": WEB, "Cookie": cookie})


def value(answer: httpx.Response, name: str) -> str:
    return set_cookie(answer, name).partition("=")[2].partition(";")[0]


@pytest.mark.usefixtures("grace")
def test_cookies_are_secure_over_https(shared_database: psycopg.Connection, redis: Redis, redis_url: str) -> None:
    config = product_config(address_of(shared_database), redis_url, web_url=WEB)
    with serving(create_app(config, product_parts())) as url, client_of(url) as http:
        shown = http.get("/sign-in")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(set_cookie(shown, "__Host-forms").split("; "))
        assert "Domain" not in set_cookie(shown, "__Host-forms")
        form, secret = Page(shown).form("Sign in"), value(shown, "__Host-forms")
        given = {"email": "grace@example.test", "password": PASSWORD}
        assert send(http, form, {"forms": secret}, **given).status_code == 403, (
            "a cookie without the prefix is no one's"
        )
        signed_in = send(http, form, {"__Host-forms": secret}, **given)
        assert signed_in.status_code == 303
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(
            set_cookie(signed_in, "__Host-session").split("; ")
        )
        session = value(signed_in, "__Host-session")
        home = http.get("/", headers={"Cookie": f"__Host-session={session}; __Host-forms={secret}"})
        planted = http.get("/", headers={"Cookie": f"session={session}; __Host-forms={secret}"})
        assert planted.status_code == 303, "another host of the domain could have set this cookie"
        out = send(http, Page(home).form("Sign out"), {"__Host-session": session, "__Host-forms": secret})
        for name in ("__Host-session", "__Host-forms"):
            line = set_cookie(out, name)
            assert "Max-Age=0" in line
            assert "Secure" in line, "a browser would not let anything else remove it"


@pytest.fixture(scope="module")
def sites(shared_database: psycopg.Connection, redis_url: str) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Serve the product by https and by http; return a client of each."""
    with ExitStack() as stack:
        configs = [
            product_config(address_of(shared_database), redis_url, web_url=web_url)
            for web_url in (WEB, "http://127.0.0.1:8080")
        ]
        urls = [stack.enter_context(serving(create_app(config, product_parts()))) for config in configs]
        by_https, by_http = (stack.enter_context(client_of(url)) for url in urls)
        yield by_https, by_http


def test_browsers_are_held_to_https(sites: tuple[httpx.Client, httpx.Client]) -> None:
    for path in ("/sign-in", "/healthz", "/v1/freezes", "/nowhere", "/static/app.css"):
        headers = [site.get(path).headers.get("Strict-Transport-Security") for site in sites]
        assert headers == ["max-age=31536000", None]
