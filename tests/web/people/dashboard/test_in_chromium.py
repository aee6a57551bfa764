"""The pages of the dashboard in a real browser: accessible in every look, quiet under their policy, and alive.

`make pictures` keeps a picture of each page.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import select

from models.organizations import User
from tests import factories
from tests.harness.accessibility import assert_accessible, axe_violations
from tests.harness.browser import Browser
from tests.harness.density import control_heights, shown_ids
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import EnterBrowser, Scene
from tests.web.people.dashboard.filled import addresses, fill
from tests.web.people.in_chromium import fill_form, in_chromium

pytestmark = in_chromium(60)
WIDE = 1280
LOOKS = ((320, "light"), (WIDE, "dark"))
PICTURES = ((390, "light"), (390, "dark"), (WIDE, "light"), (WIDE, "dark"))
"""Widths and colour schemes."""
EMPTY = ("/", "/freezes", "/exceptions", "/attention", "/pulls", "/freezes/new")


def judge(browser: Browser, name: str, *, modal: bool = False) -> None:
    """Check the page as it is in each look, and keep pictures of it where they are wanted.

    What axe-core finds in markup it finds in the wide look, which shows all but the button of the menu. A modal dialog
    hides the landmarks of its page from screen readers.
    """
    assert "Something went wrong" not in browser.text, name
    for width, scheme in LOOKS:
        browser.resize(width)
        browser.prefer(scheme)
        if not modal:
            assert_accessible(browser)
        assert axe_violations(browser, look_only=width < WIDE) == [], (name, width, scheme)
        assert browser.value("document.documentElement.scrollWidth") <= width, f"{name} scrolls at {width} px"
    if directory := os.environ.get("PICTURES"):  # before forced colours, whose background Chromium keeps for pictures
        for width, scheme in PICTURES:
            browser.resize(width)
            browser.prefer(scheme)
            (Path(directory) / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture())
    browser.prefer("light", "active")
    assert axe_violations(browser, look_only=True) == [], (name, "forced colours")
    assert browser.complaints() == [], name


def judge_all(browser: Browser, site: str, pages: Mapping[str, str]) -> None:
    """Check pages, addresses by their names, in each look with scripts, and that they are there without.

    Buttons and fields have two heights, and ids stand behind a disclosure.
    """
    browser.run_scripts(enabled=True)
    for name, path in pages.items():
        browser.open(site + path)
        judge(browser, name)
        browser.prefer("light")
        assert control_heights(browser) <= {32, 44}, name
        assert name == "not-found" or shown_ids(browser) == [], name
    browser.run_scripts(enabled=False)
    for name, path in pages.items():
        browser.open(site + path)
        assert "Something went wrong" not in browser.text, name
        assert_accessible(browser)


def test_every_page_is_accessible_and_quiet(browser: Browser, site: str, acme: Scene, enter: EnterBrowser) -> None:
    enter("admin")
    judge_all(browser, site, addresses(fill(acme)))


def test_every_page_is_accessible_while_it_is_empty(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    enter("viewer")
    judge_all(browser, site, {f"empty{path.replace('/', '-').replace('?', '-')}": path for path in EMPTY})


def test_link_of_another_organization_leads_to_its_place_after_the_switch(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    enter("admin")
    person = acme.session.scalars(select(User)).one()
    other = factories.organization(acme.session, "Globex")
    factories.membership(acme.session, other, person, "owner")
    request = fill(acme).request
    browser.open(f"{site}/exceptions?organization={other.id}")
    browser.tab_to("Switch and open the page")
    browser.press_and_go()
    browser.open(f"{site}/exceptions?organization={acme.organization.id}#{request.id}")
    judge(browser, "other-organization")
    browser.tab_to("Switch and open the page")
    browser.press_and_go()
    assert browser.value("document.querySelector('li:has(:target)').textContent").strip().startswith("acme/web#7")
    browser.forget()
    browser.open("about:blank")
    browser.open(f"{site}/exceptions?organization={acme.organization.id}#{request.id}")
    fill_form(browser, email="admin@example.test", password=PASSWORD)
    browser.tab_to("Switch and open the page")
    browser.press_and_go()
    assert browser.value("document.querySelector('li:has(:target)') !== null")
