"""What every call has in common: keys, versions, parameters, errors, idempotency keys, pages, expansion."""

from typing import Any

import httpx
import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock, client_of
from tests.tools.fake_stripe.shop import DAY, Shop
from tools.fake_stripe import Handle


def test_unknown_key_is_refused_without_showing_it(handle: Handle) -> None:
    with pytest.raises(stripe.AuthenticationError, match=r"Invalid API Key provided: sk_test_\*+word"):
        client_of(handle, "sk_test_a_long_pass_word").v1.prices.list()


def test_unsupported_version_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/prices", headers={"Stripe-Version": "2020-08-27"})
    assert "Invalid Stripe API version: 2020-08-27" in answer.json()["error"]["message"]


PRICE = {"currency": "eur", "product": "prod_x", "recurring[interval]": "month", "unit_amount": "1"}


@pytest.mark.parametrize(
    ("form", "code", "param"),
    [
        ({"nickname": "x"}, "parameter_unknown", "nickname"),
        ({"unit_amount": "x"}, "parameter_invalid_integer", "unit_amount"),
        ({"lookup_key": ""}, "parameter_invalid_empty", "lookup_key"),
        ({"lookup_key[first]": "x"}, None, "lookup_key"),
        ({"transfer_lookup_key": "1"}, None, "transfer_lookup_key"),
        ({"recurring[interval]": "age"}, None, "recurring[interval]"),
        ({"currency_options": "x"}, None, "currency_options"),
        ({"currency_options[usd][tax_behavior]": "x"}, "parameter_missing", "currency_options[usd][unit_amount]"),
        ({"expand": "x"}, None, "expand"),
        ({}, "resource_missing", "product"),
    ],
)
def test_wrong_parameter_is_refused_with_its_name(
    http: httpx.Client, form: dict[str, str], code: str | None, param: str
) -> None:
    answer = http.post("/v1/prices", data=PRICE | form)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert (error.get("code"), error["param"]) == (code, param)


class TestIdempotencyKeys:
    def create(self, api: stripe.V1Services, name: str = "Acme", key: str = "customer:1") -> stripe.Customer:
        return api.customers.create({"metadata": {"name": name}}, {"idempotency_key": key})

    def test_key_of_another_call_is_refused(self, api: stripe.V1Services) -> None:
        self.create(api)
        with pytest.raises(stripe.IdempotencyError, match="same request") as error:
            self.create(api, "Other")
        assert error.value.http_status == 400
        with pytest.raises(stripe.IdempotencyError, match="same request"):
            api.products.create({"name": "Acme"}, {"idempotency_key": "customer:1"})

    def test_refusal_of_the_handler_is_replayed(self, shop: Shop) -> None:
        requests: list[Any] = []
        for _ in range(2):
            with pytest.raises(stripe.InvalidRequestError) as error:
                shop.api.products.update("prod_x", {"name": "x"}, {"idempotency_key": "p"})
            requests.append(error.value.headers)
        assert requests[1]["Original-Request"] == requests[0]["Request-Id"]

    def test_refused_parameters_do_not_use_up_a_key(self, http: httpx.Client) -> None:
        headers = {"Idempotency-Key": "1"}
        assert http.post("/v1/customers", data={"x": "y"}, headers=headers).status_code == 400
        assert http.post("/v1/customers", data={"metadata[x]": "y"}, headers=headers).status_code == 200

    def test_key_is_forgotten_after_a_day(self, api: stripe.V1Services, clock: Clock) -> None:
        first = self.create(api)
        clock.now += DAY
        assert self.create(api).id != first.id


def test_list_has_the_newest_and_says_whether_there_are_more(shop: Shop) -> None:
    made = [shop.price(amount).id for amount in range(3)]
    found = shop.api.prices.list({"limit": 2})
    assert ([each.id for each in found.data], found.has_more) == ([made[2], made[1]], True)
    assert not shop.api.prices.list({"limit": 3}).has_more


def test_lookup_key_is_transferred_only_if_that_is_said(shop: Shop) -> None:
    old = shop.price(lookup_key="team_month")
    with pytest.raises(stripe.InvalidRequestError, match="already uses that lookup key"):
        shop.price(lookup_key="team_month", amount=5900)
    new = shop.price(lookup_key="team_month", amount=5900, transfer_lookup_key=True)
    assert [each.id for each in shop.api.prices.list({"lookup_keys": ["team_month"]}).data] == [new.id]
    assert len(shop.api.prices.list({"active": True, "type": "recurring"}).data) == 2
    assert old.id != new.id
