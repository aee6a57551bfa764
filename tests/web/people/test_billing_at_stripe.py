"""The ways from `/billing` to Stripe and back: checkout, the portal, and waiting for what happened there."""

import re
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.tools.fake_stripe.shop import press
from tests.web.people.billing import CHECKOUT, PORTAL, TRIAL, Shop, about_plan, words
from tests.web.people.forms import Page, Person

VISA = "4242 4242 4242 4242"


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
        assert answer.headers["HX-Redirect"] == "/billing"

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
        assert self.poll(admin, address).headers["HX-Redirect"] == "/billing"
        page = admin.open("/billing")
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
