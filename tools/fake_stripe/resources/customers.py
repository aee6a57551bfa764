"""Customers."""

import secrets
import string

from tools.fake_stripe.billing.payment_methods import attach, make_payment_method
from tools.fake_stripe.billing.subscription_items import is_live
from tools.fake_stripe.billing.subscriptions import end_subscription
from tools.fake_stripe.cards import CARDS, TOKENS
from tools.fake_stripe.protocol.expansion import shown
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    POSTAL_ADDRESS,
    Choice,
    Clearable,
    Fields,
    Many,
    Metadata,
    Moment,
    Parameter,
    Text,
    Whole,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import missing
from tools.fake_stripe.store import Json, blank

SHIPPING = Fields({"address!": POSTAL_ADDRESS, "name!": Text(), "phone": Text()})
PLAIN = ("balance", "description", "email", "name", "phone", "tax_exempt")
CHANGES: dict[str, Parameter] = {
    "address": Clearable(POSTAL_ADDRESS),
    "balance": Whole(),
    "description": Clearable(Text()),
    "email": Clearable(Text(512)),
    "invoice_settings": Fields({"default_payment_method": Clearable(Text()), "footer": Clearable(Text())}),
    "metadata": Metadata(),
    "name": Clearable(Text(256)),
    "phone": Clearable(Text()),
    "preferred_locales": Many(Text()),
    "shipping": Clearable(SHIPPING),
    "tax_exempt": Choice("exempt", "none", "reverse"),
}
CREATE = Fields({**CHANGES, "payment_method": Text(), "test_clock": Text()})
UPDATE = Fields(CHANGES)
LIST = Fields({"created": Moment(), "email": Text(), "test_clock": Text()})


def create(call: Call) -> Json:
    """Add a customer, with a card if one is given."""
    clock = call.referred("test_helpers.test_clock", "test_clock")
    customer = call.store.add(
        "customer",
        {
            **blank("address business_name currency customer_account default_source description discount email"),
            **blank("individual_name name phone shipping"),
            "balance": 0,
            "created": clock["frozen_time"] if clock else call.core.now(),
            "delinquent": False,
            "invoice_prefix": "".join(secrets.choice(string.ascii_uppercase) for _ in range(8)),
            "invoice_settings": blank("custom_fields default_payment_method footer rendering_options"),
            "livemode": False,
            "metadata": {},
            "next_invoice_sequence": 1,
            "preferred_locales": [],
            "tax_exempt": "none",
            "test_clock": clock and clock["id"],
        },
    )
    made = {}
    if "payment_method" in call.params:
        method = _payment_method(call, call.params["payment_method"], "payment_method")
        attach(call.core, method, customer)
        made[call.params["payment_method"]] = method["id"]
    _apply(call, customer, made)
    call.core.announce("customer.created", customer)
    return customer


def _payment_method(call: Call, given: str, param: str) -> Json:
    """Return the card that a parameter names: an id, or one of Stripe's names of test cards, which makes a new one."""
    if given in TOKENS:
        return make_payment_method(call.core, CARDS[TOKENS[given]])
    return call.store.get("payment_method", given, param)


def _apply(call: Call, customer: Json, made: dict[str, str]) -> None:
    """Set what the parameters say; `made` are cards that this call has made, by the names that it gave them."""
    params = call.params
    settings = dict(params.get("invoice_settings", {}))
    default = settings.get("default_payment_method")
    if default:
        param = "invoice_settings[default_payment_method]"
        method = call.store.get("payment_method", made.get(default, default), param)
        if method["customer"] != customer["id"]:
            raise missing("payment_method", method["id"], param)
        settings["default_payment_method"] = method["id"]
    customer["invoice_settings"] |= settings
    customer |= {name: params[name] for name in PLAIN if name in params}
    if "address" in params:
        customer["address"] = params["address"] and _address(params["address"])
    if "shipping" in params:
        customer["shipping"] = params["shipping"] and {
            **blank("carrier phone tracking_number"),
            **params["shipping"],
            "address": _address(params["shipping"]["address"]),
        }
    customer["preferred_locales"] = params.get("preferred_locales", customer["preferred_locales"])
    customer["metadata"] = merged_metadata(customer["metadata"], params.get("metadata", {}))
    call.store.changes += 1


def _address(given: Json) -> Json:
    return {**dict.fromkeys(POSTAL_ADDRESS.known), **given}


def retrieve(call: Call) -> Json:
    """Return a customer, also a deleted one."""
    identifier = call.ids["id"]
    if identifier in call.store.objects["customer"]:
        return shown(call.store, "customer", identifier)
    raise missing("customer", identifier)


def update(call: Call) -> Json:
    """Change a customer."""
    customer = call.named("customer")
    _apply(call, customer, {})
    call.core.announce("customer.updated", customer)
    return customer


def delete(call: Call) -> Json:
    """Delete a customer, and cancel their subscriptions."""
    customer = call.named("customer")
    for subscription in call.store.all("subscription"):
        if subscription["customer"] == customer["id"] and is_live(subscription):
            end_subscription(call.core, subscription)
    call.store.delete(customer)
    call.core.announce("customer.deleted", customer)
    return shown(call.store, "customer", customer["id"])


def list_all(call: Call) -> Json:
    """List customers."""
    return page(
        call, [each for each in call.store.all("customer") if matches(each, call.params, "email", "test_clock")]
    )


def list_payment_methods(call: Call) -> Json:
    """List the cards of a customer."""
    customer = call.named("customer")
    return page(call, [each for each in call.store.all("payment_method") if each["customer"] == customer["id"]])


ROUTES = (
    Route("POST", "/v1/customers", create, "customer_write", CREATE),
    Route("GET", "/v1/customers", list_all, "customer_read", LIST),
    Route("GET", "/v1/customers/{id}", retrieve, "customer_read"),
    Route("POST", "/v1/customers/{id}", update, "customer_write", UPDATE),
    Route("DELETE", "/v1/customers/{id}", delete, "customer_write"),
    Route(
        "GET",
        "/v1/customers/{id}/payment_methods",
        list_payment_methods,
        "payment_method_read",
        Fields({"type": Choice("card")}),
    ),
)
