"""The consent page in a real browser: by keyboard without scripts, and in the window that a client opens.

`PICTURES=<directory>` keeps a picture of each page.
"""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.oauth import OAuthGrant
from models.organizations import User
from tests import factories
from tests.handlers.oauth.requests import answer_of
from tests.harness.browser import Browser
from tests.harness.servers import in_thread
from tests.web.people.conftest import PASSWORD
from tests.web.people.in_chromium import Keep, fill_form, in_chromium
from tests.web.people.test_authorize_page import PATH, client, query

__all__ = ["client"]

pytestmark = [*in_chromium(10), pytest.mark.usefixtures("client")]
CLIENT = b"""<!doctype html><title>A client</title><button>Connect</button><script>
  answered = new Promise(resolve => addEventListener("message", event => resolve(event.data)))
  document.querySelector("button").onclick = () => open("about:blank", "", "popup,width=480,height=640")
</script>"""
CALLBACK = b"""<!doctype html><title>Back at the client</title><script>
  opener.postMessage(location.href, location.origin)
</script>"""


class Client(BaseHTTPRequestHandler):
    """A client with a page, which opens a window and awaits its answer from there."""

    def do_GET(self) -> None:
        """Send a page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(CALLBACK if self.path.startswith("/callback?") else CLIENT)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def loopback() -> Iterator[str]:
    """Return where the client is served on this machine."""
    with in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Client)) as port:
        yield f"http://localhost:{port}"


@pytest.fixture
def ada(account: Callable[[str], User], session: Session) -> User:
    """Make Ada an administrator of Acme."""
    user = account("Ada")
    factories.membership(session, factories.organization(session, "Acme"), user, "admin")
    return user


def assert_answer(location: str, loopback: str, site: str) -> None:
    """Check the address that the browser comes to at the client."""
    assert location.startswith(f"{loopback}/callback?")
    answer = answer_of(location)
    assert answer.keys() == {"code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("a state", site)


def test_person_connects_and_disconnects_a_client_by_keyboard(
    browser: Browser, site: str, keep: Keep, loopback: str, ada: User, session: Session
) -> None:
    factories.membership(session, factories.organization(session, "Globex"), ada, "viewer")
    browser.open(f"{site}{PATH}?{query(redirect_uri=f'{loopback}/callback')}")
    assert browser.path.startswith("/sign-in?")
    fill_form(browser, email="ada@example.test", password=PASSWORD)
    keep("authorize")
    for scope in ("freeze:read", "freeze:write"):
        browser.tab_to(scope)
        browser.press("Space")
    browser.tab_to("Approve")
    browser.press_and_go()
    assert browser.title.startswith("Error: ")
    keep("authorize-problem")
    browser.tab_to("freeze:read")
    browser.press("Space")
    browser.tab_to("Approve")
    browser.press_and_go()
    assert_answer(browser.value("location.href"), loopback, site)
    assert [grant.scopes for grant in session.scalars(select(OAuthGrant))] == [["freeze:read"]]
    browser.open(f"{site}/connections")
    keep("connections")
    browser.tab_to("Disconnect")
    browser.press("Space")
    assert "It can no longer read or freeze for you." in browser.text
    keep("connections-asks")
    browser.tab_to("Disconnect")
    browser.press_and_go()
    assert "It has no access any more." in browser.text
    keep("connections-none")


@pytest.mark.usefixtures("ada")
def test_client_gets_its_answer_from_the_window_that_it_opens(browser: Browser, site: str, loopback: str) -> None:
    with browser.running_scripts():
        browser.open(loopback)
        browser.tab_to("Connect")
        with browser.opening_window():
            browser.open(f"{site}{PATH}?{query(redirect_uri=f'{loopback}/callback')}")
            fill_form(browser, email="ada@example.test", password=PASSWORD)
            assert "Example Client" in browser.title
            browser.tab_to("Approve")
            browser.press_and_go()
            assert browser.complaints() == []
        assert_answer(browser.value("answered"), loopback, site)
