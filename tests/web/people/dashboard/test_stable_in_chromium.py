"""Pages do not move while they load: what scripts put in is there from the start."""

from collections.abc import Iterator

import pytest

from tests.harness.browser import Browser
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.dashboard.filled import addresses, fill
from tests.web.people.in_chromium import in_chromium, sign_in

pytestmark = in_chromium(30)
MOST = 0.05
"""Cumulative layout shift of a page."""
SHIFTS = """new Promise(done => {
  let sum = 0;
  new PerformanceObserver(list => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) sum += each.value;
  }).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum))));
})"""
SLOW = {"latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 100_000}
"""A slow 4G: pages are drawn before their scripts are there."""
FAST = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
ALSO = ("/calendar", "/schedules", "/audit", "/repositories", "/settings/members", "/connections", "/settings/account")


@pytest.fixture
def reader(browser: Browser, site: str, member: Enter) -> Iterator[Browser]:
    """Return a browser in Tokyo, in which an administrator is signed in."""
    member("admin")
    browser.run_scripts(enabled=True)
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    sign_in(browser, site, "admin@example.test", PASSWORD)
    browser.call("Network.setCacheDisabled", cacheDisabled=True)
    browser.call("Network.emulateNetworkConditions", **SLOW, offline=False)
    yield browser
    browser.call("Network.emulateNetworkConditions", **FAST, offline=False)
    browser.call("Network.setCacheDisabled", cacheDisabled=False)
    browser.call("Emulation.setTimezoneOverride", timezoneId="")
    browser.run_scripts(enabled=False)


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_do_not_move_while_they_load(reader: Browser, site: str, acme: Scene, width: int) -> None:
    reader.resize(width)
    moved = {}
    for path in (*addresses(fill(acme)).values(), *ALSO):
        reader.open(site + path)
        moved[path] = reader.value(SHIFTS)
    assert {path: shift for path, shift in moved.items() if shift > MOST} == {}
