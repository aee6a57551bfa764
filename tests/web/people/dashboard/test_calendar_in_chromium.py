"""The calendar in a real browser: popovers, and plans that begin with a day or with a few drawn days."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import factories
from tests.harness.browser import Browser
from tests.web.people.dashboard.conftest import EnterBrowser, Scene
from tests.web.people.dashboard.test_in_chromium import judge
from tests.web.people.in_chromium import in_chromium

pytestmark = in_chromium(30)
MARCH = "/calendar?month=2026-03"
PLACE = """
(selector => {
  const found = document.querySelector(selector);
  found.scrollIntoView({block: "center", behavior: "instant"});
  const place = found.getBoundingClientRect();
  return [place.x + 15, place.y + place.height - 6];
})"""


@pytest.fixture
def march(acme: Scene) -> None:
    start = datetime(2026, 3, 12, 9, tzinfo=UTC)
    ended: dict[str, Any] = {"end_reason": "lifted", "ended_by": factories.SYSTEM}
    for days in range(8):
        columns = {"started_at": start + timedelta(hours=days), "ended_at": start + timedelta(days=days, hours=3)}
        factories.freeze(acme.session, acme.organization, [acme.web], reason=f"Migration {days}", **columns, **ended)


def place_of(browser: Browser, selector: str) -> tuple[float, float]:
    x, y = browser.value(f"{PLACE}({selector!r})")
    return x, y


def test_bar_opens_a_popover_where_it_is(browser: Browser, site: str, march: None, enter: EnterBrowser) -> None:
    enter("member")
    browser.resize(1280)
    browser.open(site + MARCH)
    judge(browser, "calendar-bars")
    browser.resize(1280)
    bar = place_of(browser, ".event.begins")
    browser.click(*bar, go=False)
    assert "Open the freeze" in browser.text
    popover = browser.value("JSON.stringify(document.querySelector(':popover-open').getBoundingClientRect())")
    shown = dict(pair.split(":") for pair in popover.strip("{}").replace('"', "").split(","))
    assert abs(float(shown["y"]) - bar[1]) < 60, "it opens beside the bar"
    judge(browser, "calendar-popover")


@pytest.mark.parametrize("width", [390, 1280])
def test_day_leads_to_what_it_has_no_room_for(
    browser: Browser, site: str, march: None, enter: EnterBrowser, width: int
) -> None:
    enter("member")
    browser.resize(width)
    browser.open(site + MARCH)
    shown = browser.value(
        "[...document.querySelectorAll('.month a')].filter(each => each.checkVisibility()).map(each => each.innerText)"
    )
    assert "3 more on 12 March" in [" ".join(text.split()) for text in shown]


def test_drawing_over_days_starts_a_plan(browser: Browser, site: str, march: None, enter: EnterBrowser) -> None:
    enter("member")
    browser.resize(1280)
    browser.open(site + MARCH)
    first, last = (place_of(browser, f".room [data-day='2026-03-{day}']") for day in ("24", "26"))
    for kind, (x, y) in (("mousePressed", first), ("mouseMoved", last), ("mouseReleased", last)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.go_on()
    assert browser.path == "/freezes/new?from=2026-03-24&to=2026-03-27"


def test_day_starts_a_plan_without_scripts(browser: Browser, site: str, march: None, enter: EnterBrowser) -> None:
    enter("member")
    browser.run_scripts(enabled=False)
    browser.resize(1280)
    browser.open(site + MARCH)
    browser.click(*place_of(browser, ".days [data-day='2026-03-24'] a"), go=True)
    assert browser.path == "/freezes/new?from=2026-03-24"


def test_year_is_accessible(browser: Browser, site: str, march: None, enter: EnterBrowser) -> None:
    enter("viewer")
    browser.open(f"{site}/calendar?year=2026")
    judge(browser, "calendar-year")
