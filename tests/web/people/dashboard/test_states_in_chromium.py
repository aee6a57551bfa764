"""States of pages that are rarely seen, in a real browser, in every look.

Nothing is there yet, the plan lacks it, a form is refused, a dialog is open, the service does not answer. `make
pictures` keeps a picture of each.
"""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.orm import Session

from models.organizations import User
from tests import factories
from tests.harness.accessibility import axe_violations
from tests.harness.browser import Browser
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import EnterBrowser, Scene
from tests.web.people.dashboard.filled import Filled, fill
from tests.web.people.dashboard.test_in_chromium import judge, judge_all
from tests.web.people.dashboard.test_live_in_chromium import REFRESH, fail, swap
from tests.web.people.in_chromium import in_chromium, sign_in

pytestmark = in_chromium(60)
EMPTY = {
    "first-steps": "/",
    "no-repository": "/repositories",
    "no-branch": "/branches",
    "no-schedule": "/schedules",
    "no-ended-freeze": "/freezes?show=ended",
    "no-feed": "/settings/calendars",
    "no-webhook": "/settings/webhooks",
    "no-key-revoked": "/settings/keys?state=revoked",
    "no-critical": "/attention?severity=critical",
    "filter-unknown": "/freezes?repo=acme/none",
    "no-entry-matches": "/audit?action=freeze.lifted",
    "filter-refused": "/attention?severity=none",
}
"""Pages of an organisation without repositories, for somebody who may add what is missing."""
UNPAID = {
    "plan-exceptions": "/exceptions",
    "plan-pull": "/pulls?ref=acme/web%237",
    "plan-audit": "/audit",
    "plan-schedules": "/schedules",
}
"""Pages of features that the free plan lacks."""


class Sent(NamedTuple):
    """A form that is sent and refused: its page, the script that fills it in, and its button."""

    page: str
    filled: str
    button: str = "main form:not(.filters) button[type=submit]"


SENT = {
    "start-refused": Sent("/freezes/new", "0", "button[value=start]"),
    "lift-refused": Sent("/freezes/{window}/lift", "document.getElementById('reason').value = 'x'.repeat(2100)"),
    "extend-refused": Sent("/freezes/{freeze}/extend", "0"),
    "override-refused": Sent("/freezes/{window}/override", "0"),
    "decide-refused": Sent(
        "/exceptions/{request}/decide", "document.getElementById('expires_at').value = '2020-01-01T00:00'"
    ),
    "request-refused": Sent("/pulls/request?ref=acme/web%2312", "0"),
    "invite-refused": Sent(
        "/settings/members", "document.getElementById('email').value = 'grace'", "button[value=invite]"
    ),
    "reminder-refused": Sent("/settings/notifications", "document.getElementById('remind_before').value = '1'"),
    "feed-refused": Sent("/settings/calendars", "0", "button[value=create]"),
    "import-refused": Sent("/import", "0", "[value=try]"),
    "setup-refused": Sent("/enforcement/setup", "document.getElementById('repository').value = 'a/b'", "[value=plan]"),
    "key-created": Sent(
        "/settings/keys",
        "document.getElementById('name').value = 'pipeline'; document.querySelector('[name=scope]').click()",
        "button[value=create]",
    ),
}


def send(browser: Browser, site: str, form: Sent, of: Filled) -> None:
    """Fill a form in and send it."""
    ids = {"freeze": of.freeze.id, "window": of.window.id, "request": of.request.id}
    browser.open(site + form.page.format(**ids))
    browser.value(f"{form.filled}; document.querySelector('{form.button}').click()")
    browser.go_on()


def test_pages_of_an_empty_organization_are_accessible(
    browser: Browser, site: str, session: Session, account: Callable[[str], User]
) -> None:
    factories.membership(session, factories.organization(session, "Empty"), account("Admin"), "admin")
    sign_in(browser, site, "admin@example.test", PASSWORD)
    judge_all(browser, site, EMPTY)


def test_pages_of_features_without_a_plan_are_accessible(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    fill(acme)
    factories.change_plan(acme.session, acme.organization, "free")
    enter("admin")
    judge_all(browser, site, UNPAID)


def test_pages_of_refused_forms_are_accessible(browser: Browser, site: str, acme: Scene, enter: EnterBrowser) -> None:
    filled = fill(acme)
    enter("admin")
    for name, form in SENT.items():
        send(browser, site, form, filled)
        judge(browser, name)


def test_dialogs_and_the_menu_are_accessible(browser: Browser, site: str, acme: Scene, enter: EnterBrowser) -> None:
    filled = fill(acme)
    enter("admin")
    browser.open(f"{site}/freezes/{filled.window.id}")
    for name in ("extend", "override", "lift"):
        link = f"document.querySelector('a[href$=\"/{name}\"]').click()"
        swap(browser, link)
        judge(browser, f"dialog-{name}", modal=True)
        browser.value("document.querySelector('dialog [data-close]').click()")
    browser.open(f"{site}/")
    browser.value("document.querySelector('[popovertarget=keys]').click()")
    judge(browser, "shortcuts")
    browser.value("document.getElementById('keys').hidePopover()")
    browser.resize(390)
    browser.value("document.getElementById('menu').showPopover()")
    assert axe_violations(browser) == []
    judge(browser, "menu")
    browser.open(f"{site}/settings/members")
    browser.value("document.querySelector('[popovertarget=settings-menu]').click()")
    judge(browser, "settings-menu")


def test_page_of_a_service_that_does_not_answer_is_accessible(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    factories.target(acme.session, freeze := factories.freeze(acme.session, acme.organization), acme.web)
    factories.target(acme.session, freeze, acme.api, state="applied")
    enter("admin")
    browser.open(f"{site}/")
    assert "Everything is frozen" in browser.text
    fail(browser, "refused", REFRESH)
    assert "The service does not answer; trying again." in browser.text
    judge(browser, "late")
