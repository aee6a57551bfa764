"""The billing portal: configurations, and sessions with the address of a page."""

from collections.abc import Iterator

from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.core import Core
from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import PRORATION, change_price, end_trial, interval_of, item_of

INTERVALS = ("month", "year")
CONDITIONS = frozenset({"decreasing_item_amount", "shortening_interval"})
FEATURES: Json = {
    "customer_update": {"allowed_updates": [frozenset({"address", "email", "name", "tax_id"})], "enabled!": bool},
    "invoice_history": {"enabled!": bool},
    "payment_method_update": {"enabled!": bool},
    "subscription_cancel": {"enabled!": bool, "mode": frozenset({"at_period_end"})},
    "subscription_update": {
        "default_allowed_updates": [frozenset({"price"})],
        "enabled!": bool,
        "products": [{"prices!": [str], "product!": str}],
        "proration_behavior": PRORATION,
        "schedule_at_period_end": {"conditions": [{"type!": CONDITIONS}]},
    },
}
SUBSCRIPTION: Json = {"subscription!": str}


def create(call: Call) -> Json:
    """Add a configuration; the first one is the default."""
    features = {name: call.params["features"].get(name, {"enabled": False}) for name in FEATURES}
    fields = {
        "active": True,
        "features": features,
        "is_default": not call.store.all("billing_portal.configuration"),
        "metadata": call.params.get("metadata", {}),
    }
    made = call.store.add("billing_portal.configuration", fields)
    call.core.announce("billing_portal.configuration.created", made)
    return made


def update(call: Call) -> Json:
    """Change a configuration."""
    configuration = call.named("billing_portal.configuration")
    configuration["features"] |= call.params["features"]
    call.core.announce("billing_portal.configuration.updated", configuration)
    return configuration


def list_all(call: Call) -> Json:
    """List configurations."""
    return call.page(call.store.all("billing_portal.configuration"), "active")


def create_session(call: Call) -> Json:
    """Add a session of the portal with the address of its page. Raise Refusal if nothing is configured."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    configuration = _configuration(call)
    identifier = call.store.new_id("billing_portal.session")
    return call.store.add(
        "billing_portal.session",
        {
            "configuration": configuration["id"],
            "customer": customer["id"],
            "flow": call.params.get("flow_data"),
            "return_url": call.params["return_url"],
            "url": f"{call.core.base_url}/p/session/{identifier}",
        },
        identifier=identifier,
    )


def _configuration(call: Call) -> Json:
    if "configuration" in call.params:
        return call.store.get("billing_portal.configuration", call.params["configuration"], "configuration")
    for configuration in call.store.all("billing_portal.configuration"):
        if configuration["is_default"]:
            return configuration
    raise invalid("No configuration provided and your test mode default configuration has not been created.")


def offered_prices(core: Core, feature: Json, current: Json) -> Iterator[tuple[str, Json]]:
    """Yield the other prices that people can change to, each with the name of its product."""
    for offer in feature["products"]:
        for identifier in offer["prices"]:
            price = core.store.objects["price"][identifier]
            if identifier != current["id"] and price["active"]:
                yield core.store.objects["product"][offer["product"]]["name"], price


def choose_price(core: Core, subscription: Json, feature: Json, wanted: str) -> None:
    """Change the plan now, or at the end of the period, as is configured. Raise Refusal if the price is not offered."""
    current = item_of(subscription)["price"]
    offered = {price["id"]: price for _, price in offered_prices(core, feature, current)}
    if wanted not in offered:
        raise invalid("This price is not offered.", "price")
    price, currency = offered[wanted], subscription["currency"]
    before, after = (INTERVALS.index(interval_of(each)) for each in (current, price))
    is_met = {
        "decreasing_item_amount": amount_in(core, price, currency) < amount_in(core, current, currency),
        "shortening_interval": after < before,
    }
    if any(is_met[each["type"]] for each in feature["schedule_at_period_end"]["conditions"]):
        core.store.hidden[subscription["id"]]["next_price"] = price["id"]
        core.store.changes += 1
        return
    change_price(core, subscription, price, feature["proration_behavior"])
    if subscription["status"] == "trialing":
        end_trial(core, subscription)


ROUTES = (
    Route("POST", "/v1/billing_portal/configurations", create, {"features!": FEATURES, "metadata": METADATA}),
    Route("GET", "/v1/billing_portal/configurations", list_all, {"active": bool}),
    Route("POST", "/v1/billing_portal/configurations/{id}", update, {"features!": FEATURES}),
    Route(
        "POST",
        "/v1/billing_portal/sessions",
        create_session,
        {
            "configuration": str,
            "customer!": str,
            "flow_data": {
                "subscription_cancel": SUBSCRIPTION,
                "subscription_update": SUBSCRIPTION,
                "type!": frozenset({"payment_method_update", "subscription_cancel", "subscription_update"}),
            },
            "return_url!": str,
        },
    ),
)
