"""What every call has in common: keys, versions, parameters, errors, idempotency keys, pages, expansion, metadata."""

from typing import Any

import httpx
import pytest
import stripe

from tests.tools.fake_stripe.conftest import Clock, client_of
from tests.tools.fake_stripe.shop import DAY, Shop, error_of
from tools.fake_stripe import FakeStripe, Handle
from tools.fake_stripe.protocol.forms import decode
from tools.fake_stripe.refusals import Refusal

RESTRICTED = "rk_test_51FakeStripeOfBilling"


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a[b][c]=1", {"a": {"b": {"c": "1"}}}),
        ("a[]=1&a[]=2", {"a": {"0": "1", "1": "2"}}),
        ("a[1]=y&a[0]=x", {"a": {"1": "y", "0": "x"}}),
        ("a[0][b]=1&a[0][c]=2&a[1][b]=3", {"a": {"0": {"b": "1", "c": "2"}, "1": {"b": "3"}}}),
        ("a[][b]=1&a[][c]=2&a[][b]=3", {"a": {"0": {"b": "1", "c": "2"}, "1": {"b": "3"}}}),
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


class TestKeys:
    def test_call_without_a_key_is_refused(self, handle: Handle) -> None:
        answer = httpx.get(f"{handle.base_url}/v1/customers", trust_env=False)
        assert answer.status_code == 401
        assert answer.json()["error"]["message"].startswith("You did not provide an API key.")
        assert answer.json()["error"]["type"] == "invalid_request_error"

    def test_unknown_key_is_refused_without_showing_it(self, handle: Handle) -> None:
        with pytest.raises(stripe.AuthenticationError, match=r"Invalid API Key provided: sk_test_\*+word") as error:
            client_of(handle, "sk_test_a_long_pass_word").v1.customers.list()
        assert error.value.http_status == 401

    def test_expired_key_is_refused(self, handle: Handle, fake: FakeStripe) -> None:
        fake.keys.expired.add(fake.keys.secret_key)
        with pytest.raises(stripe.AuthenticationError) as error:
            client_of(handle).v1.customers.list()
        assert error_of(error)["code"] == "api_key_expired"

    def test_restricted_key_may_do_what_it_was_given(self, handle: Handle, http: httpx.Client) -> None:
        http.put("/_control/keys", json={"key": RESTRICTED, "permissions": {"customer": "write", "plan": "read"}})
        api = client_of(handle, RESTRICTED).v1
        api.customers.create({"name": "Acme"})
        assert api.prices.list().data == []
        with pytest.raises(stripe.PermissionError, match="Having the 'rak_plan_write' permission") as error:
            api.prices.create({"currency": "eur", "unit_amount": 1, "product_data": {"name": "x"}})
        assert error.value.http_status == 403

    def test_key_is_accepted_as_the_name_of_basic_authentication(self, handle: Handle, fake: FakeStripe) -> None:
        auth = (fake.keys.secret_key, "")
        assert httpx.get(f"{handle.base_url}/v1/customers", auth=auth, trust_env=False).status_code == 200


@pytest.mark.parametrize("header", ["Basic not-base64", "Basic /w==", "Bearer"])
def test_unreadable_key_is_no_key(handle: Handle, header: str) -> None:
    answer = httpx.get(f"{handle.base_url}/v1/customers", headers={"Authorization": header}, trust_env=False)
    assert answer.status_code == 401


def test_unsupported_version_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/customers", headers={"Stripe-Version": "2020-08-27"})
    assert answer.status_code == 400
    assert "Invalid Stripe API version: 2020-08-27" in answer.json()["error"]["message"]


def test_answer_names_its_request_and_version(http: httpx.Client) -> None:
    headers = http.get("/v1/customers").headers
    assert headers["Stripe-Version"] == "2026-10-28.endive"
    assert headers["Request-Id"].startswith("req_")


def test_unknown_path_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].startswith("Unrecognized request URL (GET: /v1/nothing).")


@pytest.mark.parametrize(
    ("path", "form", "code", "param"),
    [
        ("/v1/customers", {"nickname": "x"}, "parameter_unknown", "nickname"),
        ("/v1/customers", {"address[planet]": "x"}, "parameter_unknown", "address[planet]"),
        ("/v1/customers", {"payment_method": ""}, "parameter_invalid_empty", "payment_method"),
        ("/v1/customers", {"name[first]": "x"}, None, "name"),
        ("/v1/customers", {"balance": "much"}, "parameter_invalid_integer", "balance"),
        ("/v1/customers", {"tax_exempt": "yes"}, None, "tax_exempt"),
        ("/v1/customers", {"invoice_settings": "x"}, None, "invoice_settings"),
        ("/v1/customers", {"preferred_locales": "de"}, None, "preferred_locales"),
        ("/v1/customers", {"name": "x" * 257}, None, "name"),
        ("/v1/customers", {"metadata": "x"}, None, "metadata"),
        ("/v1/customers", {"metadata[k][l]": "x"}, None, "metadata[k]"),
        ("/v1/prices", {"currency": "eur", "unit_amount": "1", "currency_options": "x"}, None, "currency_options"),
        ("/v1/customers", {"metadata[k]": "v" * 501}, None, "metadata[k]"),
        ("/v1/customers", {"metadata[" + "k" * 41 + "]": "v"}, None, "metadata"),
        ("/v1/customers", {"test_clock": "clock_x"}, "resource_missing", "test_clock"),
        ("/v1/products", {}, "parameter_missing", "name"),
        ("/v1/products", {"name": "x", "active": "1"}, None, "active"),
        ("/v1/prices", {"currency": "eur", "unit_amount": "-1"}, "parameter_invalid_integer", "unit_amount"),
        ("/v1/prices", {"currency": "eur", "unit_amount": "1"}, "parameter_missing", "product"),
        ("/v1/subscriptions", {"customer": "cus_x", "items[0][price]": "p"}, "resource_missing", "customer"),
        ("/v1/billing_portal/sessions", {"customer": "c", "return_url": "x"}, "url_invalid", "return_url"),
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
        api.customers.update("cus_x", {"name": "x"})
    assert (error.value.http_status, error.value.code, error.value.param) == (404, "resource_missing", "id")


class TestIdempotencyKeys:
    def test_repeated_call_gets_the_first_answer(self, api: stripe.V1Services, fake: FakeStripe) -> None:
        first = api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
        again = api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
        assert first.id == again.id
        assert again.last_response is not None
        assert again.last_response.headers["Idempotent-Replayed"] == "true"
        assert len(fake.store.all("customer")) == 1

    def test_answer_is_replayed_as_it_was_then(self, api: stripe.V1Services) -> None:
        first = api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
        api.customers.update(first.id, {"name": "Other"})
        assert api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"}).name == "Acme"

    def test_key_with_other_parameters_is_refused(self, api: stripe.V1Services) -> None:
        api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
        with pytest.raises(stripe.IdempotencyError, match="same parameters they were first used with") as error:
            api.customers.create({"name": "Other"}, {"idempotency_key": "customer:1"})
        assert error.value.http_status == 400

    def test_key_of_another_endpoint_is_refused(self, api: stripe.V1Services) -> None:
        api.customers.create({"name": "Acme"}, {"idempotency_key": "1"})
        with pytest.raises(stripe.IdempotencyError, match="same endpoint"):
            api.products.create({"name": "Acme"}, {"idempotency_key": "1"})

    def test_refusal_of_the_handler_is_replayed(self, shop: Shop) -> None:
        gone = shop.customer()
        shop.api.customers.delete(gone.id)
        requests: list[Any] = []
        for _ in range(2):
            with pytest.raises(stripe.InvalidRequestError) as error:
                shop.api.billing_portal.sessions.create({"customer": gone.id}, {"idempotency_key": "p"})
            requests.append(error.value.headers)
        assert requests[1]["Original-Request"] == requests[0]["Request-Id"]

    def test_refused_parameters_do_not_use_up_a_key(self, http: httpx.Client) -> None:
        headers = {"Idempotency-Key": "1"}
        assert http.post("/v1/customers", data={"x": "y"}, headers=headers).status_code == 400
        assert http.post("/v1/customers", data={"name": "y"}, headers=headers).status_code == 200

    def test_key_is_forgotten_after_a_day(self, api: stripe.V1Services, clock: Clock) -> None:
        first = api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"})
        clock.now += DAY
        assert api.customers.create({"name": "Acme"}, {"idempotency_key": "customer:1"}).id != first.id

    def test_key_that_is_too_long_is_refused(self, api: stripe.V1Services) -> None:
        with pytest.raises(stripe.InvalidRequestError, match="too long"):
            api.customers.create({}, {"idempotency_key": "k" * 256})


class TestPages:
    def test_pages_follow_each_other_from_the_newest(self, shop: Shop) -> None:
        made = [shop.customer(name=str(number)).id for number in range(5)]
        listed = [each.id for each in shop.api.customers.list({"limit": 2}).auto_paging_iter()]
        assert listed == made[::-1]

    def test_page_can_end_before_an_object(self, shop: Shop) -> None:
        made = [shop.customer(name=str(number)).id for number in range(5)][::-1]
        page = shop.api.customers.list({"limit": 2, "ending_before": made[4]})
        assert ([each.id for each in page.data], page.has_more) == (made[2:4], True)

    def test_default_page_has_ten(self, shop: Shop) -> None:
        for number in range(11):
            shop.customer(name=str(number))
        page = shop.api.customers.list()
        assert (len(page.data), page.has_more, page.url) == (10, True, "/v1/customers")

    @pytest.mark.parametrize(
        "params",
        [
            {"limit": 0},
            {"limit": 101},
            {"starting_after": "cus_x"},
            {"starting_after": "a", "ending_before": "b"},
        ],
    )
    def test_impossible_page_is_refused(self, api: stripe.V1Services, params: Any) -> None:
        with pytest.raises(stripe.InvalidRequestError):
            api.customers.list(params)

    def test_list_is_filtered_by_creation(self, shop: Shop, clock: Clock) -> None:
        shop.customer()
        clock.now += 10
        late = shop.customer()
        found = shop.api.customers.list({"created": {"gte": int(clock.now)}}).data
        assert [each.id for each in found] == [late.id]


class TestExpansion:
    def test_nested_objects_are_expanded(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        found = shop.api.subscriptions.retrieve(
            subscription.id, {"expand": ["customer", "latest_invoice.customer", "items.data.price.product"]}
        )
        assert isinstance(found.customer, stripe.Customer)
        assert isinstance(found.latest_invoice, stripe.Invoice)
        assert isinstance(found.latest_invoice.customer, stripe.Customer)
        assert isinstance(found["items"].data[0].price.product, stripe.Product)

    def test_subscription_of_an_invoice_is_expanded(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        found = shop.api.invoices.list({"expand": ["data.parent.subscription_details.subscription"]}).data[0]
        assert found.parent is not None
        assert found.parent.subscription_details is not None
        assert found.parent.subscription_details.subscription.id == subscription.id  # type: ignore[union-attr]

    def test_null_is_expanded_to_null(self, shop: Shop) -> None:
        customer = shop.customer()
        assert shop.api.customers.retrieve(customer.id, {"expand": ["test_clock"]}).test_clock is None

    def test_deleted_object_is_expanded_to_what_is_left(self, shop: Shop) -> None:
        subscription = shop.subscribe()
        shop.api.customers.delete(str(subscription.customer))
        found = shop.api.subscriptions.retrieve(subscription.id, {"expand": ["customer"]})
        assert found.customer["deleted"] is True  # type: ignore[index]

    @pytest.mark.parametrize("path", ["name", "plan", "metadata", "invoice_settings", "a.b.c.d.e", "name.x"])
    def test_what_is_no_reference_is_not_expanded(self, shop: Shop, path: str) -> None:
        customer = shop.customer()
        with pytest.raises(stripe.InvalidRequestError, match="expand"):
            shop.api.customers.retrieve(customer.id, {"expand": [path]})


class TestMetadata:
    def test_keys_are_merged_and_deleted_one_by_one(self, shop: Shop) -> None:
        customer = shop.customer(metadata={"a": "1", "b": "2"})
        changed = shop.api.customers.update(customer.id, {"metadata": {"b": "", "c": "3"}})
        assert changed.metadata is not None
        assert changed.metadata.to_dict() == {"a": "1", "c": "3"}

    def test_empty_string_deletes_all(self, shop: Shop) -> None:
        customer = shop.customer(metadata={"a": "1"})
        changed = shop.api.customers.update(customer.id, {"metadata": ""})
        assert changed.metadata is not None
        assert changed.metadata.to_dict() == {}

    def test_more_than_fifty_keys_are_refused(self, shop: Shop) -> None:
        customer = shop.customer(metadata={str(number): "x" for number in range(50)})
        with pytest.raises(stripe.InvalidRequestError, match="up to 50 keys"):
            shop.api.customers.update(customer.id, {"metadata": {"more": "x"}})
