"""Products, prices and customers."""

from typing import Any

import pytest
import stripe

from tests.tools.fake_stripe.shop import Shop, error_of


class TestProducts:
    def test_product_is_made_with_its_price(self, api: stripe.V1Services) -> None:
        data = {"currency": "eur", "unit_amount": 4900, "recurring": {"interval": "month"}}
        made = api.products.create(
            {"name": "Team", "metadata": {"plan": "team"}, "default_price_data": data}  # type: ignore[typeddict-item]
        )
        assert api.prices.list({"product": made.id}).data[0].id == made.default_price

    def test_product_is_changed_and_listed(self, api: stripe.V1Services) -> None:
        made = api.products.create({"id": "team", "name": "Team"})
        api.products.create({"name": "Business"})
        api.products.update(made.id, {"active": False, "description": "For teams"})
        assert [each.description for each in api.products.list({"active": False}).data] == ["For teams"]
        assert [each.id for each in api.products.list({"ids": ["team"]}).data] == ["team"]

    def test_id_of_a_product_is_used_once(self, api: stripe.V1Services) -> None:
        api.products.create({"id": "team", "name": "Team"})
        with pytest.raises(stripe.InvalidRequestError) as error:
            api.products.create({"id": "team", "name": "Team"})
        assert error.value.code == "resource_already_exists"

    def test_product_with_prices_is_not_deleted(self, shop: Shop) -> None:
        price = shop.price()
        with pytest.raises(stripe.InvalidRequestError, match="user-created prices"):
            shop.api.products.delete(str(price.product))
        empty = shop.api.products.create({"name": "Empty"})
        assert shop.api.products.delete(empty.id).deleted is True


class TestPrices:
    def test_prices_are_found_by_lookup_key(self, shop: Shop) -> None:
        month = shop.price(lookup_key="team_month")
        shop.price(lookup_key="team_year", interval="year")
        found = shop.api.prices.list({"lookup_keys": ["team_month"], "active": True, "type": "recurring"}).data
        assert [each.id for each in found] == [month.id]
        assert [each.lookup_key for each in shop.api.prices.list({"recurring": {"interval": "year"}}).data] == [
            "team_year"
        ]

    def test_lookup_key_is_transferred_only_if_that_is_said(self, shop: Shop) -> None:
        old = shop.price(lookup_key="team_month")
        with pytest.raises(stripe.InvalidRequestError, match="already uses that lookup key"):
            shop.price(lookup_key="team_month", amount=5900)
        new = shop.price(lookup_key="team_month", amount=5900, transfer_lookup_key=True)
        assert shop.api.prices.retrieve(old.id).lookup_key is None
        assert shop.api.prices.list({"lookup_keys": ["team_month"]}).data[0].id == new.id

    def test_currency_options_are_shown_only_if_expanded(self, shop: Shop) -> None:
        price = shop.price(currency_options={"usd": {"unit_amount": 5900}})
        assert "currency_options" not in price
        found = shop.api.prices.list({"expand": ["data.currency_options"]}).data[0]
        assert found.currency_options is not None
        amounts = {currency: option["unit_amount"] for currency, option in found.currency_options.to_dict().items()}
        assert amounts == {"eur": 4900, "usd": 5900}

    def test_price_is_archived(self, shop: Shop) -> None:
        price = shop.price()
        shop.api.prices.update(price.id, {"active": False, "nickname": "old", "metadata": {"a": "b"}})
        assert shop.api.prices.list({"active": True}).data == []
        with pytest.raises(stripe.InvalidRequestError, match="inactive"):
            shop.subscribe(price)

    def test_price_for_one_payment_is_no_subscription(self, shop: Shop) -> None:
        price = shop.api.prices.create({"currency": "eur", "unit_amount": 1, "product_data": {"name": "Mug"}})
        assert price.type == "one_time"
        with pytest.raises(stripe.InvalidRequestError, match="type=one_time"):
            shop.subscribe(price)


class TestCustomers:
    def test_customer_is_changed_and_found(self, shop: Shop) -> None:
        customer = shop.customer(email="a@acme.test", address={"country": "DE"})
        shop.api.customers.update(
            customer.id,
            {"email": "b@acme.test", "phone": "1", "shipping": {"name": "x", "address": {"city": "Bonn"}}},
        )
        [found] = shop.api.customers.list({"email": "b@acme.test"}).data
        assert found.id == customer.id
        assert found.address is not None
        assert (found.address.country, found.address.city) == ("DE", None)

    def test_deleted_customer_is_shown_as_deleted(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        customer = str(subscription.customer)
        assert shop.api.customers.delete(customer).deleted is True
        assert shop.api.customers.retrieve(customer).deleted is True
        assert shop.api.customers.list().data == []
        assert shop.again(subscription).status == "canceled"
        assert [each.status for each in shop.api.subscriptions.list({"customer": customer, "status": "all"}).data] == [
            "canceled"
        ]

    def test_nothing_is_sold_to_a_deleted_customer(self, shop: Shop) -> None:
        customer = shop.customer()
        shop.api.customers.delete(customer.id)
        with pytest.raises(stripe.InvalidRequestError) as error:
            shop.checkout(customer.id)
        assert (error.value.code, error.value.param) == ("resource_missing", "customer")
        with pytest.raises(stripe.InvalidRequestError) as error:
            shop.api.customers.delete(customer.id)
        assert error.value.http_status == 404


class TestCards:
    def test_card_is_attached_and_detached(self, shop: Shop) -> None:
        customer = shop.customer()
        card = shop.api.payment_methods.create(
            {"type": "card", "card": {"number": "4242424242424242", "exp_month": 12, "exp_year": 2034, "cvc": "123"}}
        )
        shop.api.payment_methods.update(card.id, {"billing_details": {"name": "Ada"}, "metadata": {"a": "b"}})
        shop.api.payment_methods.attach(card.id, {"customer": customer.id})
        shop.api.customers.update(customer.id, {"invoice_settings": {"default_payment_method": card.id}})
        assert [each.id for each in shop.api.customers.payment_methods.list(customer.id).data] == [card.id]
        assert [each.id for each in shop.api.payment_methods.list({"customer": customer.id}).data] == [card.id]
        assert shop.api.payment_methods.detach(card.id).customer is None
        settings = shop.api.customers.retrieve(customer.id).invoice_settings
        assert settings is not None
        assert settings.default_payment_method is None
        with pytest.raises(stripe.InvalidRequestError, match="not attached"):
            shop.api.payment_methods.detach(card.id)

    def test_card_of_another_customer_is_no_default(self, shop: Shop) -> None:
        card = shop.api.payment_methods.attach("pm_card_visa", {"customer": shop.customer().id})
        with pytest.raises(stripe.InvalidRequestError, match="No such PaymentMethod"):
            shop.api.customers.update(shop.customer().id, {"invoice_settings": {"default_payment_method": card.id}})
        with pytest.raises(stripe.InvalidRequestError, match="already been attached"):
            shop.api.payment_methods.attach(card.id, {"customer": shop.customer().id})

    def test_declined_card_is_not_saved(self, shop: Shop) -> None:
        with pytest.raises(stripe.CardError, match="Your card was declined") as error:
            shop.api.payment_methods.attach("pm_card_visa_chargeDeclined", {"customer": shop.customer().id})
        assert error.value.http_status == 402
        assert error_of(error) | {"code": "card_declined", "decline_code": "generic_decline"} == error_of(error)

    @pytest.mark.parametrize("card", [{"number": "4111111111111111"}, {"token": "tok_x"}, {"cvc": "1"}])
    def test_other_numbers_and_tokens_are_refused(self, api: stripe.V1Services, card: Any) -> None:
        with pytest.raises(stripe.StripeError):
            api.payment_methods.create({"type": "card", "card": card})
