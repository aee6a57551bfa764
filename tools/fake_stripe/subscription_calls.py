"""The calls about subscriptions."""

from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.refusals import invalid, missing, missing_parameter
from tools.fake_stripe.routes import EXPAND, Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import (
    PRORATION,
    active_price,
    change_price,
    end_subscription,
    is_live,
    item_of,
    make_subscription,
    period_end,
    schedule_end,
)


def create(call: Call) -> Json:
    """Add a subscription of a customer."""
    params = call.params
    customer = call.store.get("customer", params["customer"], "customer")
    method = call.store.find("payment_method", params.get("default_payment_method"))
    if params.get("trial_end", call.core.moment + 1) <= call.core.moment:
        raise invalid("Invalid timestamp: must be an integer Unix timestamp in the future", "trial_end")
    return make_subscription(call.core, customer, {**params, "price": params["items"][0]["price"]}, method)


def retrieve(call: Call) -> Json:
    """Return a subscription, also one that has ended."""
    return call.named("subscription")


def update(call: Call) -> Json:
    """Change the price, the card, or the end of a subscription."""
    subscription, params = call.named("subscription"), call.params
    if not is_live(subscription):
        raise invalid("A canceled subscription can only update its cancellation_details and metadata.")
    if "items" in params:
        [change] = params["items"]
        if change["id"] != item_of(subscription)["id"]:
            raise missing("subscription_item", change["id"], "items[0][id]")
        price = active_price(call.core, change["price"])
        if "proration_behavior" not in params:
            raise missing_parameter("proration_behavior")  # what Stripe does without it is not simulated
        change_price(call.core, subscription, price, params["proration_behavior"])
    if "default_payment_method" in params:
        method = call.store.get("payment_method", params["default_payment_method"], "default_payment_method")
        subscription["default_payment_method"] = method["id"]
    if "cancel_at_period_end" in params:
        ends = subscription["cancel_at_period_end"] = params["cancel_at_period_end"]
        schedule_end(call.core, subscription, period_end(subscription) if ends else None)
    else:
        call.core.announce("customer.subscription.updated", subscription)
    return subscription


def cancel(call: Call) -> Json:
    """End a subscription now, without credit for the rest of its period."""
    subscription = call.named("subscription")
    end_subscription(call.core, subscription)
    return subscription


def list_all(call: Call) -> Json:
    """List subscriptions; those that have ended only if `status` says so."""
    customer = call.params.get("customer")
    if customer is not None and customer not in call.store.objects["customer"]:
        raise missing("customer", customer, "customer")
    found = call.store.all("subscription")
    return call.page([each for each in found if "status" in call.params or is_live(each)], "customer")


ROUTES = (
    Route(
        "POST",
        "/v1/subscriptions",
        create,
        {
            "currency": str,
            "customer!": str,
            "default_payment_method": str,
            "items!": [{"price!": str}],
            "metadata": METADATA,
            "trial_end": int,
        },
    ),
    Route("GET", "/v1/subscriptions", list_all, {"customer": str, "status": frozenset({"all"})}),
    Route("GET", "/v1/subscriptions/{id}", retrieve, {}),
    Route(
        "POST",
        "/v1/subscriptions/{id}",
        update,
        {
            "cancel_at_period_end": bool,
            "default_payment_method": str,
            "items": [{"id!": str, "price!": str}],
            "proration_behavior": PRORATION,
        },
    ),
    Route("DELETE", "/v1/subscriptions/{id}", cancel, EXPAND),
)
