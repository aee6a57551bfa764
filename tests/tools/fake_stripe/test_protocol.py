"""What every call has in common: keys, versions, parameters, errors, idempotency keys, pages, expansion."""

from typing import Any

import httpx
import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock, client_of
from tests.tools.fake_stripe.shop import DAY, Shop
from tools.fake_stripe import FakeStripe, Handle
from tools.fake_stripe.parameters import decode
from tools.fake_stripe.refusals import Refusal


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a[b][c]=1", {"a": {"b": {"c": "1"}}}),
        ("a[]=1&a[]=2", {"a": {"0": "1", "1": "2"}}),
        ("a[0][b]=1&a[0][c]=2&a[1][b]=3", {"a": {"0": {"b": "1", "c": "2"}, "1": {"b": "3"}}}),
        ("a%5Bb%5D=x%20y", {"a": {"b": "x y"}}),
        ("a=", {"a": ""}),
    ],
)
def test_form_is_read_as_stripe_reads_it(form: str, read: dict[str, Any]) -> None:
    assert decode(form) == read


@pytest.mark.parametrize("form", ["a=1&a[b]=2", "[a]=1", "a[[b]=1"])
def test_malformed_form_is_refused(form: str) -> None:
    with pytest.raises(Refusal):
        decode(form)


def test_call_without_a_key_is_refused(handle: Handle) -> None:
    answer = httpx.get(f"{handle.base_url}/v1/prices", trust_env=False)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "invalid_request_error")


def test_unknown_key_is_refused_without_showing_it(handle: Handle) -> None:
    with pytest.raises(stripe.AuthenticationError, match=r"Invalid API Key provided: sk_test_\*+word"):
        client_of(handle, "sk_test_a_long_pass_word").v1.prices.list()


def test_unsupported_version_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/prices", headers={"Stripe-Version": "2020-08-27"})
    assert "Invalid Stripe API version: 2020-08-27" in answer.json()["error"]["message"]


def test_unknown_path_is_refused(http: httpx.Client) -> None:
    assert http.get("/v1/nothing").status_code == 404


@pytest.mark.parametrize(
    ("path", "form", "code", "param"),
    [
        ("/v1/customers", {"nickname": "x"}, "parameter_unknown", "nickname"),
        ("/v1/customers", {"name": ""}, "parameter_invalid_empty", "name"),
        ("/v1/customers", {"name[first]": "x"}, None, "name"),
        ("/v1/customers", {"metadata": "x"}, None, "metadata"),
        ("/v1/products", {}, "parameter_missing", "name"),
        ("/v1/prices/price_x", {"active": "1"}, None, "active"),
        (
            "/v1/prices",
            {"currency": "eur", "unit_amount": "x", "recurring[interval]": "month"},
            "parameter_invalid_integer",
            "unit_amount",
        ),
        (
            "/v1/prices",
            {"currency": "eur", "unit_amount": "1", "recurring[interval]": "month"},
            "parameter_missing",
            "product",
        ),
        (
            "/v1/prices",
            {"currency": "eur", "unit_amount": "1", "recurring[interval]": "age"},
            None,
            "recurring[interval]",
        ),
        ("/v1/subscriptions", {"customer": "cus_x", "items": "p"}, None, "items"),
        ("/v1/subscriptions", {"customer": "cus_x", "items[0][price]": "p"}, "resource_missing", "customer"),
    ],
)
def test_wrong_parameter_is_refused_with_its_name(
    http: httpx.Client, path: str, form: dict[str, str], code: str | None, param: str
) -> None:
    answer = http.post(path, data=form)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert (error.get("code"), error["param"]) == (code, param)


def test_unknown_id_in_the_path_is_404(api: stripe.V1Services) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="No such customer: 'cus_x'") as error:
        api.customers.delete("cus_x")
    assert (error.value.http_status, error.value.code, error.value.param) == (404, "resource_missing", "id")


class TestIdempotencyKeys:
    def create(self, api: stripe.V1Services, name: str = "Acme", key: str = "customer:1") -> stripe.Customer:
        return api.customers.create({"name": name}, {"idempotency_key": key})

    def test_repeated_call_gets_the_first_answer(self, api: stripe.V1Services, fake: FakeStripe) -> None:
        first, again = self.create(api), self.create(api)
        assert first.id == again.id
        assert again.last_response is not None
        assert again.last_response.headers["Idempotent-Replayed"] == "true"
        assert len(fake.store.all("customer")) == 1

    def test_key_of_another_call_is_refused(self, api: stripe.V1Services) -> None:
        self.create(api)
        with pytest.raises(stripe.IdempotencyError, match="same parameters") as error:
            self.create(api, "Other")
        assert error.value.http_status == 400
        with pytest.raises(stripe.IdempotencyError, match="same endpoint"):
            api.products.create({"name": "Acme"}, {"idempotency_key": "customer:1"})

    def test_refusal_of_the_handler_is_replayed(self, shop: Shop) -> None:
        requests: list[Any] = []
        for _ in range(2):
            with pytest.raises(stripe.InvalidRequestError) as error:
                shop.api.billing_portal.sessions.create({"customer": "cus_x"}, {"idempotency_key": "p"})
            requests.append(error.value.headers)
        assert requests[1]["Original-Request"] == requests[0]["Request-Id"]

    def test_refused_parameters_do_not_use_up_a_key(self, http: httpx.Client) -> None:
        headers = {"Idempotency-Key": "1"}
        assert http.post("/v1/customers", data={"x": "y"}, headers=headers).status_code == 400
        assert http.post("/v1/customers", data={"name": "y"}, headers=headers).status_code == 200

    def test_key_is_forgotten_after_a_day(self, api: stripe.V1Services, clock: Clock) -> None:
        first = self.create(api)
        clock.now += DAY
        assert self.create(api).id != first.id


class TestPages:
    def test_pages_follow_each_other_from_the_newest(self, shop: Shop) -> None:
        made = [shop.price(amount).id for amount in range(5)]
        assert [each.id for each in shop.api.prices.list({"limit": 2}).auto_paging_iter()] == made[::-1]

    @pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 101}, {"starting_after": "price_x"}])
    def test_impossible_page_is_refused(self, api: stripe.V1Services, params: Any) -> None:
        with pytest.raises(stripe.InvalidRequestError):
            api.prices.list(params)


class TestExpansion:
    def test_objects_and_hidden_fields_are_expanded(self, shop: Shop) -> None:
        price = shop.price(currency_options={"usd": {"unit_amount": 5900}})
        assert "currency_options" not in price
        [found] = shop.api.prices.list({"expand": ["data.product", "data.currency_options"]}).data
        assert isinstance(found.product, stripe.Product)
        assert found.currency_options is not None
        assert found.currency_options["usd"].unit_amount == 5900

    def test_what_is_no_reference_is_not_expanded(self, shop: Shop) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="expand"):
            shop.api.customers.retrieve(shop.customer().id, {"expand": ["name"]})


def test_lookup_key_is_transferred_only_if_that_is_said(shop: Shop) -> None:
    old = shop.price(lookup_key="team_month")
    with pytest.raises(stripe.InvalidRequestError, match="already uses that lookup key"):
        shop.price(lookup_key="team_month", amount=5900)
    new = shop.price(lookup_key="team_month", amount=5900, transfer_lookup_key=True)
    assert [each.id for each in shop.api.prices.list({"lookup_keys": ["team_month"]}).data] == [new.id]
    assert len(shop.api.prices.list({"active": True, "type": "recurring"}).data) == 2
    assert old.id != new.id
