"""What pages say of blocking, in a real browser: each state is accessible in every look, and stands first."""

import pytest

from models.freezes import Freeze
from tests import factories
from tests.harness.browser import Browser
from tests.web.people.dashboard.conftest import EnterBrowser, Scene
from tests.web.people.dashboard.test_blocking import (
    Cause,
    allow_deletion,
    forget_rules,
    hold,
    lose_rule,
    start,
    succeed,
    suspend,
)
from tests.web.people.dashboard.test_in_chromium import judge
from tests.web.people.in_chromium import in_chromium

pytestmark = in_chromium(60)
STATES: dict[str, tuple[Cause | None, ...]] = {
    "blocked": (None, None),
    "stopped": (hold, hold),
    "not-blocked": (lose_rule, lose_rule),
    "partly": (allow_deletion, None),
    "unknown": (forget_rules, None),
    "writing": (succeed, None),
    "mixed": (suspend, allow_deletion),
}
"""What befalls the two branches of a freeze, by the names of the pictures."""
FIRST = ("freeze", "overview", "branch", "pull")
"""The pages that begin with what they say of blocking; the others show it in rows, which look alike in each state."""
LARGEST = """
    [...document.querySelectorAll('main *')].filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()))
        .filter(e => e.checkVisibility() && !e.closest('.unseen'))
        .map(e => [parseFloat(getComputedStyle(e).fontSize), e])
        .reduce((best, each) => each[0] > best[0] ? each : best)[1].className
"""


def pages_of(acme: Scene, freeze: Freeze) -> dict[str, str]:
    """Return addresses by the names of the pictures."""
    return {
        "freeze": f"/freezes/{freeze.id}",
        "overview": "/",
        "freezes": "/freezes",
        "lift": f"/freezes/{freeze.id}/lift",
        "branch": f"/branches/{acme.web.id}",
        "repository": f"/repositories/{acme.repositories[0].id}",
        "branches": "/branches",
        "pull": "/pulls?ref=acme/web%237",
        "new-freeze": "/freezes/new",
    }


@pytest.mark.parametrize("state", STATES)
def test_pages_that_speak_of_blocking_are_accessible(
    browser: Browser, site: str, acme: Scene, enter: EnterBrowser, state: str
) -> None:
    factories.pull_request(acme.session, acme.repositories[0], 7, head_sha="a" * 40)
    enforced = factories.now() if state in {"blocked", "partly"} else None
    stopped = {"blocked_at": factories.now()} if state == "stopped" else {"first_enforced_at": factories.now()}
    freeze = start(acme, *STATES[state], enforced_at=enforced, **stopped)
    enter("admin")
    for name, path in pages_of(acme, freeze).items():
        if name not in FIRST and state != "mixed":
            continue
        browser.open(site + path)
        judge(browser, f"blocking-{state}-{name}")
        if name in FIRST:
            assert browser.value(LARGEST) == "says", name
