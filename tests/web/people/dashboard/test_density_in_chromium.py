"""How high rows are, and that ids stand behind a disclosure: kinds of pages in a real browser."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests import factories
from tests.harness.browser import Browser
from tests.harness.density import shown_ids
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.dashboard.filled import addresses, fill
from tests.web.people.dashboard.scenes import fill_organization
from tests.web.people.dashboard.test_pages_in_chromium import FILLED
from tests.web.people.in_chromium import in_chromium, sign_in

pytestmark = in_chromium(30)
TABLES = ("freezes-ended", "freezes-found", "freeze-moving", "freeze-window", "exceptions", "pulls")
SETTLED = ("schedule", "schedule-edit", "repositories", "repository", "branches")
"""Pages with tables: of `filled.py`, and of `scenes.py`."""
ROWS = """Math.max(...[...document.querySelectorAll("%s")]
  .filter(row => row.checkVisibility()).map(row => row.getBoundingClientRect().height))"""
"""The height of the highest row, in CSS pixels; also of those that say what is wrong."""
TEXT = """Math.min(...[...document.querySelectorAll("table.list td, .entry")].filter(each => each.checkVisibility())
  .map(each => parseFloat(getComputedStyle(each).fontSize)))"""


@pytest.fixture
def reader(browser: Browser, site: str, acme: Scene, member: Enter) -> Iterator[Browser]:
    """Return a browser in which an administrator is signed in, with scripts."""
    member("admin")
    browser.run_scripts(enabled=True)
    sign_in(browser, site, "admin@example.test", PASSWORD)
    yield browser
    browser.run_scripts(enabled=False)


@pytest.fixture
def pages(acme: Scene, member: Enter) -> dict[str, str]:
    """Return the addresses of every page of an organisation that has something of everything, by their names."""
    ids = fill_organization(member("owner"), acme)
    names = {**ids, "month": f"{factories.now() + timedelta(days=30):%Y-%m}"}
    return {**addresses(fill(acme)), **{name: path.format(**names) for name, path in FILLED.items()}}


def test_rows_of_tables_are_at_most_44_pixels_high(reader: Browser, site: str, pages: dict[str, str]) -> None:
    reader.resize(1280)
    heights = {}
    for name in (*TABLES, *SETTLED):
        reader.open(site + pages[name])
        heights[name] = reader.value(ROWS % "table.list > tbody > tr")
    reader.open(site + pages["audit"])
    assert reader.value(ROWS % ".entries > li") <= 40
    assert {name: height for name, height in heights.items() if not 24 <= height <= 44} == {}


def test_rows_stay_readable_when_the_window_is_narrow(reader: Browser, site: str, pages: dict[str, str]) -> None:
    reader.resize(390)
    sizes = {}
    for name in (*TABLES, *SETTLED, "audit"):
        reader.open(site + pages[name])
        sizes[name] = reader.value(TEXT)
    assert {name: size for name, size in sizes.items() if size < 16} == {}


def test_ids_of_a_page_are_shown_to_who_asks(reader: Browser, site: str, pages: dict[str, str]) -> None:
    reader.resize(1280)
    reader.open(site + pages["webhook"])
    assert shown_ids(reader) == []
    reader.tab_to("Details of Freeze started, 1")
    reader.press("Enter")
    reader.tab_to("Copy msg_")
    reader.tab_to("Id for the API")
    reader.press("Enter")
    reader.tab_to("Copy whk_")
    assert len(shown_ids(reader)) == 2
