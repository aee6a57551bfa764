"""What scripts add to the dashboard: live parts, dialogs, shortcuts."""

import pytest

from tests import factories
from tests.harness.browser import CHROMIUM, Browser
from tests.web.people.dashboard.conftest import Scene
from tests.web.people.dashboard.test_in_chromium import Enter, enter
from tests.web.people.test_in_chromium import browser, running

__all__ = ["browser", "enter", "running"]

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow(20),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
SWAPPED = """
new Promise(resolve => {
  document.addEventListener("htmx:after:swap", () => setTimeout(resolve), { once: true });
  %s
})
"""
REFRESH = "document.querySelector('[data-live]').dispatchEvent(new Event('refresh'));"


def swap(browser: Browser, action: str) -> None:
    """Do something that has htmx swap, and wait until it has."""
    browser.value(SWAPPED % action)


def test_progress_moves_and_rests_and_keeps_the_focus(browser: Browser, site: str, acme: Scene, enter: Enter) -> None:
    freeze = factories.freeze(acme.session, acme.organization, reason="Migration")
    targets = [factories.target(acme.session, freeze, each) for each in (acme.web, acme.api)]
    enter("member")

    browser.open(f"{site}/")
    assert "Being frozen: 0 of 2" in browser.text
    browser.value(f"document.querySelector('#{freeze.id} a.button').focus()")
    targets[0].state = "applied"
    acme.session.flush()
    swap(browser, "")  # the page reads itself again after a second
    assert "Being frozen: 1 of 2" in browser.text
    assert browser.value("document.activeElement.href").endswith(f"/{freeze.id}/lift")
    targets[1].state = "applied"
    acme.session.flush()
    swap(browser, "")
    assert "All 2 branches blocked" in browser.text
    assert browser.value("document.querySelector('[data-live]').dataset.live") == "20"
    assert browser.value("document.querySelectorAll('time[datetime][title]').length") > 0


@pytest.mark.parametrize(("hidden", "polls"), [(False, 3), (True, 0)])
def test_resting_page_polls_three_times_a_minute_and_never_while_hidden(
    browser: Browser, site: str, acme: Scene, enter: Enter, *, hidden: bool, polls: int
) -> None:
    factories.freeze(acme.session, acme.organization)
    enter("viewer")
    clock = """
      let now = 0, next = 1; const due = new Map(), real = Date.now();
      window.setTimeout = (run, wait = 0) => { due.set(next, [now + wait, run]); return next++; };
      window.clearTimeout = id => due.delete(id);
      Date.now = () => real + now;
      window.pass = () => {
        const [id, [at, run]] = [...due].sort((a, b) => a[1][0] - b[1][0])[0] ?? [0, [Infinity]];
        if (at > 60000) return false;
        due.delete(id); now = at; run(); return true;
      };
      window.polled = 0;
      document.addEventListener("htmx:before:request", event => {
        window.polled++; event.preventDefault();
        setTimeout(() => document.dispatchEvent(new CustomEvent("htmx:finally:request")));
      });
    """
    if hidden:
        clock += "Object.defineProperty(document, 'hidden', { get: () => true });"
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=clock)
    browser.open(f"{site}/")
    browser.value("(async () => { while (pass()) await null; })()")
    assert browser.value("polled") == polls
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def test_page_keeps_its_content_while_the_service_does_not_answer(
    browser: Browser, site: str, acme: Scene, enter: Enter
) -> None:
    factories.freeze(acme.session, acme.organization, [acme.web], reason="Migration")
    enter("viewer")
    browser.open(f"{site}/")
    browser.call(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    browser.value(f"""new Promise(resolve => {{
      document.addEventListener("htmx:error", () => setTimeout(resolve), {{ once: true }}); {REFRESH} }})""")
    assert "The service does not answer; trying again." in browser.text
    assert "Migration" in browser.text
    browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    swap(browser, REFRESH)
    assert "does not answer" not in browser.text


def test_lift_opens_in_a_dialog_by_keyboard_and_closes(browser: Browser, site: str, acme: Scene, enter: Enter) -> None:
    freeze, other = (factories.freeze(acme.session, acme.organization, reason=each) for each in ("Migration", "Other"))
    for each in (freeze, other):  # at rest, so that no live part is swapped meanwhile
        factories.target(acme.session, each, acme.web, state="applied")
    enter("member")
    browser.open(f"{site}/freezes/{freeze.id}")
    swap(browser, "document.querySelector('a[href$=\"/lift\"]').click();")
    assert browser.value("document.getElementById('dialog').open") is True
    assert "1 branch stays frozen" in browser.text
    assert browser.path == f"/freezes/{freeze.id}"
    browser.tab_to("Cancel")
    browser.press("Enter")
    assert browser.value("document.getElementById('dialog').open") is False
    assert browser.path == f"/freezes/{freeze.id}"
    swap(browser, "document.querySelector('a[href$=\"/lift\"]').click();")
    browser.tab_to("Lift the freeze")
    browser.press_and_go()
    assert "The freeze is lifted." in browser.text
    assert browser.value("document.activeElement.className") == "notice"


def test_shortcuts_lead_to_sections_and_can_be_switched_off(
    browser: Browser, site: str, acme: Scene, enter: Enter
) -> None:
    enter("viewer")
    browser.open(f"{site}/freezes")
    key = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '%s', bubbles: true, cancelable: true }))"
    browser.value(key % "/")
    assert browser.focus() == "Repository"
    browser.value(key % "?")
    assert browser.value("document.getElementById('keys').open") is True
    browser.value("document.getElementById('shortcuts').click(), document.getElementById('keys').close()")
    browser.value(key % "?")
    assert browser.value("document.getElementById('keys').open") is False
    browser.value("document.getElementById('shortcuts').click()")
    browser.value(key % "g")
    browser.value(key % "e")
    browser.go_on()
    assert browser.path == "/exceptions"


def test_impact_follows_what_is_typed(browser: Browser, site: str, acme: Scene, enter: Enter) -> None:
    enter("member")
    browser.open(f"{site}/freezes/new")
    assert "2 branches of 2 repositories" in browser.text
    browser.value("document.getElementById('scope-glob').click()")
    browser.tab_to("Patterns")
    browser.write("acme/web")
    swap(browser, "")
    assert "1 branch of 1 repository would be frozen" in browser.text
    assert "Show what it covers" not in browser.text
