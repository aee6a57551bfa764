"""Customers, and the cards that are saved for them."""

from tools.fake_stripe.cards import CARDS, TOKENS
from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.payments import save_card
from tools.fake_stripe.refusals import missing
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import end_subscription, is_live


def create(call: Call) -> Json:
    """Add a customer."""
    fields = {
        "address": None,
        "balance": 0,
        "created": call.core.moment,
        "email": None,
        "invoice_settings": {"default_payment_method": None},
        "livemode": False,
        "metadata": {},
        "name": None,
        **call.params,
    }
    customer = call.store.add("customer", fields, hidden={"invoices": 0})
    call.core.announce("customer.created", customer)
    return customer


def retrieve(call: Call) -> Json:
    """Return a customer, or what is left of one that was deleted."""
    if call.id in call.store.deleted:
        return {"id": call.id, "object": "customer", "deleted": True}
    return call.named("customer")


def update(call: Call) -> Json:
    """Charge another card of a customer from now on."""
    customer, given = call.named("customer"), call.params["invoice_settings"]["default_payment_method"]
    method = call.store.get("payment_method", given, "invoice_settings[default_payment_method]")
    customer["invoice_settings"]["default_payment_method"] = method["id"]
    call.core.announce("customer.updated", customer)
    return customer


def delete(call: Call) -> Json:
    """Delete a customer, and cancel their subscriptions."""
    customer = call.named("customer")
    for subscription in call.store.all("subscription"):
        if subscription["customer"] == customer["id"] and is_live(subscription):
            end_subscription(call.core, subscription)
    call.core.announce("customer.deleted", customer)
    return call.store.delete(customer)


def attach_card(call: Call) -> Json:
    """Save a test card, by one of Stripe's names, for a customer."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    if call.id not in TOKENS:
        raise missing("payment_method", call.id)
    return save_card(call.core, CARDS[TOKENS[call.id]], customer)


ROUTES = (
    Route("POST", "/v1/customers", create, {"name": str, "metadata": METADATA}),
    Route("GET", "/v1/customers/{id}", retrieve, {}),
    Route("POST", "/v1/customers/{id}", update, {"invoice_settings!": {"default_payment_method!": str}}),
    Route("DELETE", "/v1/customers/{id}", delete, {}),
    Route("POST", "/v1/payment_methods/{id}/attach", attach_card, {"customer!": str}),
)
