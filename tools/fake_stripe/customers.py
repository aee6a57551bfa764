"""The calls about customers."""

from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import end_subscription, live_subscriptions


def create(call: Call) -> Json:
    """Add a customer."""
    hidden = {"invoices": 0, "card": None}
    customer = call.store.add("customer", {"metadata": call.params.get("metadata", {})}, hidden=hidden)
    call.core.announce("customer.created", customer)
    return customer


def delete(call: Call) -> Json:
    """Delete a customer, and cancel their subscriptions."""
    customer = call.named("customer")
    for subscription in live_subscriptions(call.core, customer):
        end_subscription(call.core, subscription)
    call.core.announce("customer.deleted", customer)
    return call.store.delete(customer)


ROUTES = (
    Route("POST", "/v1/customers", create, {"metadata": METADATA}),
    Route("DELETE", "/v1/customers/{id}", delete, {}),
)
