"""`/billing`: the plan in every state, what may be done about it, and the ways to Stripe and back."""

import re
from collections.abc import Callable
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from models.organizations import User
from rules.billing.prices import format_amount
from services.billing.trials import announce_trial_ends
from tests import factories
from tests.tools.fake_stripe.shop import press
from tests.web.people.billing import INVOICE, PAY, Shop
from tests.web.people.conftest import PASSWORD, Visit
from tests.web.people.forms import Page, Person
from web.billing_summary import days_left
from web.instants import format_distance

VISA = "4242 4242 4242 4242"
CHECKOUT, TRIAL, PORTAL = "Continue to checkout", "Start the trial", "Change or cancel at Stripe"
INVOICES = "Cards and invoices at Stripe"


def buttons(page: Page) -> list[str]:
    """Return the texts of the buttons of the page itself."""
    return [text for form in page.forms for _, _, text in form.buttons if text != "Sign out"]


def about_plan(page: Page) -> str:
    """Return what the page says about the plan in force."""
    return words(page.text.partition("Sign out")[2].partition("Usage")[0])


def words(text: str) -> str:
    return " ".join(text.split())


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
        self, shop: Shop, account: Callable[[str], User], visit: Visit, role: str, state: str
    ) -> None:
        shop.joined_by(account("Grace"), role)
        person = visit()
        person.sign_in("grace@example.test", PASSWORD)
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

    def test_page_leads_back_after_signing_in(
        self, visitor: Person, account: Callable[[str], User], shop: Shop
    ) -> None:
        shop.joined_by(account("Ada"), "admin")
        answer = visitor.client.get("/billing")
        assert answer.headers["location"] == "/sign-in?next=%2Fbilling"
        page = visitor.press(visitor.open("/billing"), "Sign in", email="ada@example.test", password=PASSWORD)
        assert page.title == "Plan and billing"

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


def leave(person: Person, page: Page, button: str, **fields: str) -> str:
    """Press a button that leads to Stripe, and return the address there."""
    page = person.press(page, button, **fields)
    assert page.status == 200, page.text
    [url] = [url for text, url in page.links.items() if text.startswith("Open Stripe")]
    assert f'http-equiv="refresh" content="0; url={url}"' in page.answer.text
    return url


def path_of(site: str, answer: httpx.Response | Any) -> str:
    """Return the path of our page that an answer of Stripe leads to."""
    location = str(answer.headers["Location"])
    assert location.startswith(site)
    return location.removeprefix(site)


class TestCheckout:
    def test_paid_checkout_leads_back_to_a_page_that_waits(self, admin: Person, shop: Shop, site: str) -> None:
        shop.open_stripe()
        url = leave(admin, admin.open("/billing"), CHECKOUT, choice="team year")
        back = path_of(site, press(url, card=VISA))
        assert re.fullmatch(r"/billing\?checkout=cs_\w+", back)
        page = admin.open(back)
        assert page.title == "Your order for Acme"
        assert "That usually takes a few seconds." in words(page.text)
        assert '/billing/payment?polls=1" hx-trigger="every 1s"' in page.answer.text
        shop.read_stripe()
        page = admin.open(back)
        assert "Thank you. Your organisation has its new plan." in page.text
        assert "Team, 490.00 EUR a year" in about_plan(page)
        assert "490.00 EUR" in words(page.text.partition("Invoices")[2])

    def test_order_without_a_choice_is_refused_at_the_plans(self, admin: Person, shop: Shop) -> None:
        shop.sell()
        refused = admin.press(admin.open("/billing?currency=USD"), CHECKOUT)
        assert refused.status in {400, 422}
        assert "#plan" in refused.links.values()
        assert "53.00 USD a month" in words(refused.text)

    def test_refused_order_keeps_what_was_chosen(self, admin: Person, shop: Shop) -> None:
        shop.open_stripe()
        shop.fake.faults.add("error", "/v1/")
        refused = admin.press(admin.open("/billing?currency=USD"), CHECKOUT, choice="business year")
        assert refused.status == 502
        assert "The payment provider is not available." in refused.text
        assert "Watched branches: 0 of 25" in words(refused.text)
        form = refused.form(CHECKOUT)
        assert (form.fields["choice"], form.fields["currency"]) == ("business year", "USD")

    def test_second_subscription_is_refused_in_words_of_the_page(self, admin: Person, shop: Shop) -> None:
        shop.open_stripe()
        press(leave(admin, admin.open("/billing"), CHECKOUT, choice="team month"), card=VISA)
        refused = admin.press(admin.open("/billing"), CHECKOUT, choice="business month")
        assert refused.status == 409
        assert "There is a subscription already" in refused.text
        assert "POST /v1" not in refused.text

    def test_form_without_a_known_action_is_refused(self, admin: Person, shop: Shop) -> None:
        form = admin.open("/billing").form(TRIAL)
        assert admin.send(form, do="win").status_code == 422

    def test_return_path_leads_to_sign_in_and_back(self, visitor: Person) -> None:
        answer = visitor.client.get("/billing?checkout=cs_1")
        assert answer.headers["location"] == "/sign-in?next=%2Fbilling%3Fcheckout%3Dcs_1"


class TestWaiting:
    def poll(self, person: Person, path: str, **parameters: str | int) -> httpx.Response:
        return person.client.get(path, params=parameters or None, headers={"HX-Request": "true"})

    @pytest.mark.parametrize(
        ("polls", "seconds", "text"),
        [
            (1, 1, "That usually takes a few seconds."),
            (12, 3, "This takes longer than usual."),
            (31, 10, "Do not pay again."),
            (42, None, "You can close this page."),
            ("x", 1, "That usually takes a few seconds."),
        ],
    )
    def test_waiting_for_a_payment_slows_down_and_stops(
        self, admin: Person, shop: Shop, polls: str, seconds: int | None, text: str
    ) -> None:
        answer = self.poll(admin, "/billing/payment", polls=polls)
        assert text in words(answer.text)
        assert re.findall(r'hx-trigger="every (\d+)s"', answer.text) == ([str(seconds)] if seconds else [])
        assert "<html" not in answer.text

    def test_payment_that_arrived_opens_the_page(self, admin: Person, shop: Shop) -> None:
        shop.subscribe()
        answer = self.poll(admin, "/billing/payment", polls=3)
        assert answer.headers["HX-Redirect"] == "/billing?notice=bought"

    def test_incomplete_subscription_has_not_arrived(self, admin: Person, shop: Shop) -> None:
        shop.subscribe("incomplete")
        assert "HX-Redirect" not in self.poll(admin, "/billing/payment").headers

    def test_ended_session_opens_the_page_which_requires_to_sign_in(self, visitor: Person) -> None:
        for path in ("/billing/payment", "/billing/changes?seen=x"):
            assert self.poll(visitor, path).headers["HX-Redirect"] == "/billing"
            assert visitor.client.get(path).headers["Location"] == "/billing"

    def test_portal_leads_back_to_a_page_that_watches_for_changes(self, admin: Person, shop: Shop, site: str) -> None:
        shop.open_stripe()
        press(leave(admin, admin.open("/billing"), CHECKOUT, choice="team month"), card=VISA)
        shop.read_stripe()
        url = leave(admin, admin.open("/billing"), PORTAL)
        shop.read_stripe()
        page = admin.open("/billing/changes")
        assert "What you change at Stripe shows here within a minute." in page.text
        [address] = re.findall(r'hx-get="([^"]+)"', page.answer.text)
        address = address.replace("&amp;", "&")
        assert "What you change" in admin.client.get(address).text
        [subscription] = shop.subscriptions_at_stripe()
        press(url, action="cancel", subscription=subscription["id"])
        shop.clock.offset += timedelta(minutes=1)
        shop.read_stripe()
        assert self.poll(admin, address).headers["HX-Redirect"] == "/billing?notice=changed"
        page = admin.open("/billing?notice=changed")
        assert "Team Cancelled The plan ends on" in about_plan(page)
        again = admin.open("/billing/changes")
        [address] = re.findall(r'hx-get="([^"]+)"', again.answer.text)
        shop.clock.offset += timedelta(minutes=1)
        shop.read_stripe()
        answer = admin.client.get(address.replace("&amp;", "&"))
        assert "We found no changes at Stripe." in words(answer.text)
        assert "hx-get" not in answer.text

    def test_portal_of_a_deleted_customer_is_refused_in_words_of_the_page(self, admin: Person, shop: Shop) -> None:
        shop.open_stripe()
        shop.subscribe()
        refused = admin.press(admin.open("/billing"), PORTAL)
        assert refused.status == 409
        assert "Stripe no longer has this customer." in refused.text
