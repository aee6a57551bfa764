"""Plan and billing in a real browser: every state, and the ways to Stripe and back, without scripts and with them.

`PICTURES=<directory>` keeps a picture of each state.
"""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete

from models.billing import PlanGrant
from models.organizations import User
from models.stripe import StripeCustomer, StripeSubscription
from tests import factories
from tests.harness.browser import Browser
from tests.web.people.billing import Shop
from tests.web.people.in_chromium import Keep, in_chromium, sign_in
from tests.web.people.test_billing_page import STATES

pytestmark = in_chromium(40)
DECLINED, CHALLENGED, VISA = "4000000000000002", "4000002500003155", "4242424242424242"
STATIC = Path("web/static")
LAYOUTS = ("none", "manual", "trial", "active", "past_due")
"""States that look different; the others differ in their words."""


def press(browser: Browser, button: str) -> None:
    """Reach a button or a link with the Tab key, and press it."""
    browser.tab_to(button)
    browser.press_and_go()


def leave(browser: Browser, button: str) -> None:
    """Press a button that leads to Stripe, and wait until its page is there."""
    press(browser, button)
    browser.go_on()


def pay_with(browser: Browser, card: str) -> None:
    browser.tab_to("Card number")
    browser.write(card)
    press(browser, "Subscribe")


def choose(browser: Browser, plan: str) -> None:
    """Choose a plan by keyboard: the arrow keys go from one to the next."""
    browser.tab_to("Team: 49.00 EUR a month")
    for _ in range(4):
        browser.press("Space")
        if plan in browser.focus():
            return
        browser.press("ArrowDown")
    raise AssertionError(f"{plan} cannot be chosen")


def forget_plan(shop: Shop) -> None:
    """Leave the organisation without a plan, as it is at first."""
    for table in (StripeSubscription, StripeCustomer, PlanGrant):
        shop.session.execute(delete(table).where(table.organization_id == shop.organization.id))
        shop.session.expunge_all()


@pytest.fixture
def member(browser: Browser, site: str, shop: Shop, account: Callable[[str], User]) -> Callable[[str], None]:
    """Sign a member in: `member("admin")`."""

    def enter(role: str) -> None:
        shop.joined_by(account(role.title()), role)
        sign_in(browser, site, f"{role}@example.test")

    return enter


class TestStates:
    def test_every_state_is_accessible_narrow_and_wide(
        self, browser: Browser, site: str, shop: Shop, member: Callable[[str], None], keep: Keep
    ) -> None:
        member("admin")
        shop.sell()
        for number in range(2):
            factories.watched(shop.session, shop.organization, f"acme/web{number}")
        for state in STATES if "PICTURES" in os.environ else LAYOUTS:
            forget_plan(shop)
            STATES[state][0](shop)
            browser.open(f"{site}/billing")
            assert "Plan and billing" in browser.text
            keep(f"billing-{state.replace(' ', '-')}")

    def test_refused_and_restricted_pages_are_accessible(
        self, browser: Browser, site: str, shop: Shop, member: Callable[[str], None], keep: Keep
    ) -> None:
        member("viewer")
        shop.sell()
        shop.subscribe("unpaid")
        for _ in range(5):
            factories.schedule(shop.session, shop.organization)
        browser.open(f"{site}/billing")
        keep("billing-viewer-over-limit")
        browser.forget()
        forget_plan(shop)
        member("admin")
        browser.open(f"{site}/billing?checkout=cs_test_1")
        keep("billing-waiting")
        browser.open(f"{site}/billing")
        shop.fake.faults.add("error", "/v1/")
        choose(browser, "Business: 199.00 EUR a month")
        press(browser, "Continue to checkout")
        assert "The payment provider is not available." in browser.text
        keep("billing-refused")


class TestWithoutScripts:
    def test_plan_is_bought_and_cancelled_by_keyboard(
        self, browser: Browser, site: str, shop: Shop, member: Callable[[str], None]
    ) -> None:
        member("admin")
        shop.open_stripe()
        browser.open(f"{site}/settings/account")
        press(browser, "Plan and billing")
        choose(browser, "Team: 490.00 EUR a year")
        leave(browser, "Continue to checkout")
        press(browser, "Back")
        assert browser.path == "/billing"
        choose(browser, "Team: 490.00 EUR a year")
        leave(browser, "Continue to checkout")
        pay_with(browser, DECLINED)
        assert "Your card was declined." in browser.text
        pay_with(browser, CHALLENGED)
        press(browser, "Fail authentication")
        assert "unable to authenticate" in browser.text
        pay_with(browser, CHALLENGED)
        press(browser, "Complete authentication")
        assert browser.path.startswith("/billing?checkout=cs_")
        assert "Your order for Acme" in browser.text
        shop.read_stripe()
        press(browser, "Check again")
        assert browser.path == "/billing"
        assert "490.00 EUR a year" in browser.text
        leave(browser, "Change or cancel at Stripe")
        press(browser, "Cancel subscription")
        press(browser, "Return")
        assert browser.path == "/billing/changes"
        shop.read_stripe()
        browser.open(f"{site}/billing/changes")
        assert "The plan ends on" in browser.text


class TestWithScripts:
    def test_pages_follow_what_happens_at_stripe(
        self, scripted: Browser, site: str, shop: Shop, member: Callable[[str], None]
    ) -> None:
        member("admin")
        shop.open_stripe()
        scripted.open(f"{site}/billing")
        assert scripted.complaints() == []
        choose(scripted, "Team: 49.00 EUR a month")
        leave(scripted, "Continue to checkout")
        pay_with(scripted, VISA)
        assert "We are waiting for Stripe to confirm it." in scripted.text
        shop.read_stripe()
        scripted.go_on()
        assert scripted.path == "/billing"
        assert scripted.complaints() == []
        leave(scripted, "Change or cancel at Stripe")
        press(scripted, "Cancel subscription")
        press(scripted, "Return")
        assert "What you change at Stripe shows here within a minute." in scripted.text
        shop.read_stripe()
        scripted.go_on()
        assert scripted.path == "/billing"
        assert "The plan ends on" in scripted.text
        assert scripted.complaints() == []

    def test_first_load_takes_four_requests_at_most(
        self, scripted: Browser, site: str, shop: Shop, member: Callable[[str], None]
    ) -> None:
        member("admin")
        scripted.open(f"{site}/billing")
        loaded = scripted.value("performance.getEntriesByType('resource').map(each => each.name)")
        assert 1 + len(loaded) <= 4, loaded
        files = [STATIC / name.partition("/static/")[2] for name in loaded]
        assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= 25 * 1024
