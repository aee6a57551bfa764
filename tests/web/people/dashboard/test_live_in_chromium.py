"""What scripts add to the dashboard: live parts, dialogs, shortcuts."""

import json
from datetime import timedelta

import pytest

from models.enforcement import BranchEnforcement
from tests import factories
from tests.harness.browser import RENDERED, Browser
from tests.web.people.dashboard.conftest import EnterBrowser, Scene
from tests.web.people.in_chromium import in_chromium

pytestmark = in_chromium(20)
SENT = """
new Promise(resolve => {
  document.addEventListener("htmx:%s", () => setTimeout(resolve), { once: true });
  %s
})
"""
SHOWN = """
new Promise(resolve => {
  const look = () => { if (document.body.innerText.includes(%s)) { observer.disconnect(); resolve(); } };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { childList: true, characterData: true, subtree: true });
  look();
})
"""
TYPE = "document.getElementById('%s').dispatchEvent(new Event('input', { bubbles: true }));"
SUGGESTED = """
new Promise(resolve => {
  const field = document.getElementById("timezone");
  new MutationObserver(() => setTimeout(resolve)).observe(field.list, { childList: true });
  field.focus();
})
"""
SHORTCUTS_SHOWN = "document.getElementById('keys').matches(':popover-open')"
REFRESH = "document.querySelector('[data-live]').dispatchEvent(new Event('refresh'));"


def swap(browser: Browser, action: str) -> None:
    """Do something that has htmx swap, and wait until it has."""
    browser.value(SENT % ("after:swap", action))


def test_progress_moves_and_rests_and_keeps_the_focus(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    freeze = factories.freeze(acme.session, acme.organization, reason="Migration")
    targets = [factories.target(acme.session, freeze, each) for each in (acme.web, acme.api)]
    enter("member")

    browser.open(f"{site}/")
    assert browser.value("htmx.version") == "4.0.1"
    assert "Checks written: 0 of 2" in browser.text
    browser.value(f"document.querySelector('#{freeze.id} a.button').focus()")
    targets[0].state = "applied"
    acme.session.flush()
    swap(browser, "")  # the page reads itself again after a second
    assert "Checks written: 1 of 2" in browser.text
    assert browser.value("document.activeElement.href").endswith(f"/{freeze.id}/lift")
    targets[1].state = "applied"
    acme.session.flush()
    swap(browser, "")
    assert "All 2 branches so far are blocked" in browser.text
    assert browser.value("document.querySelector('[data-live]').dataset.live") == "20"
    assert browser.value("document.querySelectorAll('time[datetime][title]').length") > 0


@pytest.mark.parametrize(("hidden", "polls"), [(False, 3), (True, 0)])
def test_resting_page_polls_three_times_a_minute_and_never_while_hidden(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser, *, hidden: bool, polls: int
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


PARTS = {
    "overview": ("/", "Migration", REFRESH),
    "freeze at rest": ("/freezes/{rests}", "The branch is blocked.", REFRESH),
    "freeze that moves": ("/freezes/{moves}", "Checks written: 0 of 1", REFRESH),
    "doctor": ("/branches/{branch}?since=2099-01-01T00:00:00Z", "Verifying the rules now", REFRESH),
    "setup": ("/enforcement/setup", "1 for verification", REFRESH),
    "payment": ("/billing?checkout=cs_test_1", "We are waiting for Stripe", ""),
    "impact": ("/freezes/new", "1 branch of 1 repository", TYPE % "repository"),
    "preview": ("/schedules/new", "Covers 2 watched branches now.", TYPE % "name"),
}
"""Pages with parts that read themselves again, or follow a form: address, what the part says, and what has it read."""
HANGS = """
htmx.config.defaultTimeout = 1;
window.fetch = (_, { signal }) => new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason)));
"""
FAILURES = {
    "error": "window.fetch = () => Promise.reject(new TypeError());",
    "hangs": HANGS,
    "refused": "window.fetch = async () => new Response('', { status: 503 });",
}
"""How a request fails: not sent, not answered in time, and answered with an error."""


@pytest.fixture
def addresses(acme: Scene) -> dict[str, str]:
    """Return the ids of a freeze that rests, one that moves, and a branch that waits for verification."""
    rests, moves = (factories.freeze(acme.session, acme.organization, reason=each) for each in ("Other", "Migration"))
    factories.target(acme.session, rests, acme.web, state="applied")
    factories.target(acme.session, moves, acme.web)
    found = acme.session.get_one(BranchEnforcement, acme.web.id)
    found.due_at = factories.now() + timedelta(hours=1)
    acme.session.flush()
    return {"rests": rests.id, "moves": moves.id, "branch": acme.web.id}


def await_text(browser: Browser, text: str) -> None:
    """Wait until the page shows a text: a part that is read after the page may come later than the page."""
    browser.value(SHOWN % json.dumps(text))


def fail(browser: Browser, failure: str, action: str) -> None:
    """Have the next request of a page fail, do something that sends one, and wait until it has failed."""
    kept = "window.answering ??= window.fetch;"
    event = "response:error" if failure == "refused" else "error"
    browser.value(SENT % (event, kept + FAILURES[failure] + action))


@pytest.mark.parametrize("name", PARTS)
def test_page_keeps_its_content_while_the_service_does_not_answer(
    browser: Browser, site: str, addresses: dict[str, str], enter: EnterBrowser, name: str
) -> None:
    path, content, action = PARTS[name]
    enter("admin")
    browser.open(site + path.format(**addresses))
    await_text(browser, content)
    fail(browser, "error", action)
    assert content in browser.text
    again = "; trying again" if name not in {"impact", "preview"} else ""
    assert f"The service does not answer{again}." in browser.text
    swap(browser, f"window.fetch = window.answering; {action}")
    assert content in browser.text
    assert "The service does not answer" not in browser.text


@pytest.mark.parametrize("failure", FAILURES)
def test_page_says_that_the_service_does_not_answer_however_a_part_fails(
    browser: Browser, site: str, addresses: dict[str, str], enter: EnterBrowser, failure: str
) -> None:
    enter("viewer")
    browser.open(f"{site}/freezes/{addresses['rests']}")
    fail(browser, failure, REFRESH)
    assert "The service does not answer; trying again." in browser.text


def test_lift_opens_in_a_dialog_by_keyboard_and_closes(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
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
    browser.value(RENDERED)  # only then Chromium has moved the focus to what has `autofocus`
    assert browser.value("document.activeElement.className") == "notice"


def test_shortcuts_lead_to_sections_and_can_be_switched_off(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser
) -> None:
    factories.freeze(acme.session, acme.organization)
    enter("viewer")
    browser.open(f"{site}/freezes")
    key = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '%s', bubbles: true, cancelable: true }))"
    browser.value(key % "/")
    assert browser.focus() == "Words"
    browser.value(key % "?")
    assert browser.value(SHORTCUTS_SHOWN) is True
    browser.value("document.getElementById('shortcuts').click(), document.getElementById('keys').hidePopover()")
    browser.value(key % "?")
    assert browser.value(SHORTCUTS_SHOWN) is False
    browser.value("document.getElementById('shortcuts').click()")
    browser.value(key % "g")
    browser.value(key % "e")
    browser.go_on()
    assert browser.path == "/exceptions"


@pytest.mark.parametrize("path", ["/schedules/new", "/settings"])
def test_zones_are_suggested_as_soon_as_their_field_has_the_focus(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser, path: str
) -> None:
    enter("admin")
    browser.open(site + path)
    offered = "[...document.getElementById('timezone').list.options].map(each => each.value)"
    assert browser.value(offered) == []
    browser.value(SUGGESTED)
    assert {"Europe/London", "Asia/Kolkata"} <= set(browser.value(offered))


def test_impact_follows_what_is_typed(browser: Browser, site: str, acme: Scene, enter: EnterBrowser) -> None:
    enter("member")
    browser.open(f"{site}/freezes/new")
    assert "1 branch of 1 repository would be frozen" in browser.text
    browser.value("document.querySelector('[name=scope][value=glob]').click()")
    browser.tab_to("Patterns")
    browser.write("acme/*")
    browser.value(SHOWN % json.dumps("2 branches of 2 repositories would be frozen"))
    assert "Show what it covers" not in browser.text
