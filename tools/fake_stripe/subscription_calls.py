"""The calls about subscriptions and their invoices."""

from tools.fake_stripe.refusals import missing
from tools.fake_stripe.routes import EXPAND, Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import end_subscription


def list_subscriptions(call: Call) -> Json:
    """List the subscriptions of a customer, also those that have ended."""
    customer = call.params["customer"]
    if customer not in call.store.objects["customer"]:
        raise missing("customer", customer, "customer")
    return call.page(call.store.all("subscription"), "customer")


def cancel(call: Call) -> Json:
    """End a subscription now, without credit for the rest of its period."""
    subscription = call.named("subscription")
    end_subscription(call.core, subscription)
    return subscription


def list_invoices(call: Call) -> Json:
    """List the invoices of a customer."""
    return call.page(call.store.all("invoice"), "customer")


ROUTES = (
    Route("GET", "/v1/subscriptions", list_subscriptions, {"customer!": str, "status!": frozenset({"all"})}),
    Route("DELETE", "/v1/subscriptions/{id}", cancel, EXPAND),
    Route("GET", "/v1/invoices", list_invoices, {"customer!": str}),
)
