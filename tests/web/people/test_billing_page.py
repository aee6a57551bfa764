"""`/billing`: the plan in every state, and what may be done about it."""

import re
from collections.abc import Callable
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from models.organizations import User
from rules.billing.prices import format_amount
from services.billing.trials import announce_trial_ends
from tests import factories
from tests.web.people.billing import CHECKOUT, INVOICE, PAY, PORTAL, TRIAL, Shop, about_plan, words
from tests.web.people.conftest import SignedIn
from tests.web.people.forms import Page, Person
from web.billing_summary import days_left
from web.instants import format_distance

INVOICES = "Cards and invoices at Stripe"


def buttons(page: Page) -> list[str]:
    """Return the texts of the buttons of the page itself."""
    return [text for form in page.forms for _, _, text in form.buttons if text != "Sign out"]


def primary(page: Page) -> int:
    """Return the number of primary buttons."""
    body = page.answer.text.partition("<main")[2]
    return len(re.findall(r"<button(?![^>]*class=\"(?:second|plain))", body)) + body.count('class="button"')


def manual(shop: Shop) -> None:
    shop.grant("business", "manual")


def manual_beside_a_subscription(shop: Shop) -> None:
    shop.subscribe()
    shop.grant("business", "manual")


def trial(shop: Shop) -> None:
    shop.grant("business", "trial", 9)


def cancelling(shop: Shop) -> None:
    shop.subscribe(cancel_at=shop.now() + timedelta(days=12))


def after_the_grace(shop: Shop) -> None:
    shop.fail_to_pay(15)


def unpaid(shop: Shop) -> None:
    shop.subscribe("unpaid", past_due_since=shop.now() - timedelta(days=30), action_url=PAY)


def ended(shop: Shop) -> None:
    shop.customer(invoices=[INVOICE])


def missing(shop: Shop) -> None:
    shop.subscribe("missing", unclear_since=shop.now())
    shop.grant("team", "stripe", 14, reference="sub_1")


def unknown_state(shop: Shop) -> None:
    shop.subscribe("dormant", interval="quarter", unclear_since=shop.now())
    shop.grant("team", "stripe", 14, reference="sub_1")


def unknown_price(shop: Shop) -> None:
    shop.subscribe("active", unclear_since=shop.now())


STATES: MappingProxyType[str, tuple[Callable[[Shop], Any], str, list[str]]] = MappingProxyType(
    {
        "none": (lambda _: None, "Free Try Business for 14 days, without a card.", [TRIAL, CHECKOUT]),
        "manual": (
            manual,
            "Business Given by an operator An operator of this service gives Acme this plan. Ask them",
            [],
        ),
        "manual and paid": (manual_beside_a_subscription, "Business Given by an operator", [PORTAL]),
        "trial": (trial, "Business Trial 9 days left. The trial ends on", [CHECKOUT]),
        "active": (Shop.subscribe, "Team Active The next payment is on", [PORTAL]),
        "trialing": (lambda shop: shop.subscribe("trialing"), "Team Active The first payment is on", [PORTAL]),
        "cancelling": (cancelling, "Team Cancelled The plan ends on", [PORTAL]),
        "past_due": (lambda shop: shop.fail_to_pay(3), "Team Payment failed 11 days left.", [PORTAL]),
        "after the grace": (after_the_grace, "Free Not paid A payment failed on", [PORTAL]),
        "unpaid": (unpaid, "Free Not paid A payment failed on", [PORTAL]),
        "paused": (lambda shop: shop.subscribe("paused"), "Free Paused The subscription is paused", [PORTAL]),
        "incomplete": (lambda shop: shop.subscribe("incomplete"), "Free Not complete The first payment", [PORTAL]),
        "missing": (missing, "Team Unclear Stripe reports something about", [INVOICES, CHECKOUT]),
        "unknown state": (unknown_state, "Team Unclear Stripe reports something about", [PORTAL]),
        "unknown price": (unknown_price, "Team Unclear Stripe reports something about", [PORTAL]),
        "ended": (ended, "Free Subscription ended The last subscription has ended.", [INVOICES, CHECKOUT, TRIAL]),
    }
)
"""How each state comes about, what the page says, and its buttons; a trial is available until one was used."""


class TestStates:
    @pytest.mark.parametrize("state", STATES)
    def test_page_shows_each_state_with_its_buttons(self, admin: Person, shop: Shop, state: str) -> None:
        arrange, text, expected = STATES[state]
        shop.sell()
        arrange(shop)
        page = admin.open("/billing")
        assert page.status == 200
        assert text in about_plan(page)
        assert sorted(buttons(page)) == sorted(expected)
        assert primary(page) <= 1
        pays = state in {"past_due", "after the grace", "unpaid"}
        assert page.links.get("Pay the open invoice") == (PAY if pays else None)

    @pytest.mark.parametrize(("role", "state"), [("viewer", "none"), ("viewer", "active"), ("member", "past_due")])
    def test_page_offers_nothing_that_the_role_is_refused(
        self, shop: Shop, account: Callable[[str], User], signed_in: SignedIn, role: str, state: str
    ) -> None:
        grace = account("Grace")
        shop.joined_by(grace, role)
        person = signed_in(grace, shop.organization)
        shop.sell()
        STATES[state][0](shop)
        page = person.open("/billing")
        assert buttons(page) == []
        assert "Pay the open invoice" not in page.links
        assert "Owners and admins of the organisation can change the plan." in page.text
        assert "49.00 EUR a month" in words(page.text)

    def test_trial_with_a_subscription_shows_both(self, admin: Person, shop: Shop) -> None:
        shop.subscribe("trialing")
        shop.grant("business", "trial", 5)
        text = about_plan(admin.open("/billing"))
        assert "Business Active" in text
        assert "Team, 49.00 EUR a month" in text
        assert "Business until" in text

    def test_page_without_an_organization_says_what_to_do(self, ada: Person) -> None:
        page = ada.open("/billing")
        assert (page.status, page.title) == (404, "No organisation")

    def test_mail_about_the_end_of_a_trial_links_to_the_page(
        self, admin: Person, shop: Shop, mailed: Callable[[str], str]
    ) -> None:
        shop.grant("business", "trial", 2)
        assert announce_trial_ends(shop.jobs) == 1
        assert admin.open(mailed("ada@example.test")).title == "Plan and billing"


class TestUsage:
    def test_usage_is_shown_as_bars_within_the_limits(self, admin: Person, shop: Shop) -> None:
        for name in ("main", "release"):
            factories.watched(shop.session, shop.organization, f"acme/{name}")
        page = admin.open("/billing")
        assert "Watched branches: 2 of 25" in words(page.text)
        assert re.findall(r'<progress max="(\d+)" value="(\d+)"', page.answer.text) == [("25", "2"), ("3", "0")]
        assert "style=" not in page.answer.text

    def test_usage_over_a_limit_says_so_and_that_it_goes_on(self, admin: Person, shop: Shop) -> None:
        for _ in range(4):
            factories.schedule(shop.session, shop.organization)
        page = admin.open("/billing")
        assert "Schedules: 4 of 3, 1 over the limit" in words(page.text)
        assert "What is over a limit goes on" in page.text

    def test_unlimited_usage_has_no_bar(self, admin: Person, shop: Shop) -> None:
        shop.grant("business", "manual")
        page = admin.open("/billing")
        assert "Watched branches: 0, unlimited" in words(page.text)
        assert "<progress" not in page.answer.text


class TestPrices:
    def test_prices_are_shown_in_one_currency_which_can_be_changed(self, admin: Person, shop: Shop) -> None:
        shop.sell()
        page = admin.open("/billing")
        assert "1,990.00 EUR a year" in words(page.text)
        assert "Prices in EUR USD, plus tax" in words(page.text)
        assert "USD a month" not in words(page.text)
        page = admin.open(page.links["USD"].partition("#")[0])
        assert "53.00 USD a month" in words(page.text)
        assert page.form(CHECKOUT).fields["currency"] == "USD"

    def test_prices_are_in_the_currency_of_the_last_invoice(self, admin: Person, shop: Shop) -> None:
        shop.sell()
        shop.customer(invoices=[{**INVOICE, "currency": "USD"}])
        assert "53.00 USD a month" in words(admin.open("/billing?currency=XXX").text)

    def test_page_without_prices_shows_all_else(self, admin: Person, shop: Shop) -> None:
        shop.subscribe()
        page = admin.open("/billing")
        assert page.status == 200
        assert "Prices are not available at the moment" in page.text
        assert "The next payment is on" in page.text
        assert "ACME-0001" in page.text

    @pytest.mark.parametrize(
        ("amount", "currency", "text"),
        [
            (4900, "EUR", "49.00 EUR"),
            (199000, "USD", "1,990.00 USD"),
            (5, "CHF", "0.05 CHF"),
            (-250, "EUR", "-2.50 EUR"),
            (12000, "JPY", "12,000 JPY"),
            (4900, "HUF", None),
        ],
    )
    def test_amounts_have_the_decimal_places_of_their_currency(
        self, amount: int, currency: str, text: str | None
    ) -> None:
        assert format_amount(amount, currency) == text

    @pytest.mark.parametrize(
        ("length", "distance", "days"),
        [
            (timedelta(days=14), "in 14 days", "14 days"),
            (timedelta(days=13, hours=23), "in 14 days", "14 days"),
            (timedelta(hours=47), "in 47 hours", "2 days"),
            (timedelta(minutes=90), "in 90 minutes", "1 day"),
            (timedelta(seconds=20), "just now", "1 day"),
            (timedelta(days=-3), "3 days ago", "0 days"),
            (timedelta(seconds=-70), "a minute ago", "0 days"),
        ],
    )
    def test_distances_are_rounded_and_begun_days_are_left(self, length: timedelta, distance: str, days: str) -> None:
        now = factories.now()
        assert format_distance(now + length, now) == distance
        assert days_left((now + length).isoformat(), now) == days


class TestTrial:
    def test_trial_starts_at_its_button_and_once_per_person(self, admin: Person, shop: Shop) -> None:
        page = admin.press(admin.open("/billing"), TRIAL)
        assert "The trial has started." in page.text
        assert "14 days left." in about_plan(page)
        shop.clock.offset += timedelta(days=15)
        page = admin.open("/billing")
        assert "Free Acme has no subscription." in about_plan(page)
        assert buttons(page) == []

    def test_refused_trial_shows_the_page_again_with_its_status(self, admin: Person, shop: Shop) -> None:
        page = admin.open("/billing")
        shop.grant("business", "manual")
        refused = admin.press(page, TRIAL)
        assert refused.status == 409
        assert "The organisation has a plan that is not a trial." in refused.text
        assert "Given by an operator" in refused.text
