"""Checkout sessions, in the mode `subscription`: calls, and what completes and expires a session."""

from tools.fake_stripe.cards import Card
from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.core import Core
from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.periods import DAY
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import active_price, make_subscription

LIFETIME = DAY
NEAREST_TRIAL_END = 2 * DAY


def create(call: Call) -> Json:
    """Add an open session with the address of its page. Raise Refusal if the parameters do not fit together."""
    params, now = call.params, call.core.moment
    customer = call.store.get("customer", params["customer"], "customer")
    trial_end = params["subscription_data"].get("trial_end")
    _check(params, trial_end, now)
    price = active_price(call.core, params["line_items"][0]["price"])
    amount = amount_in(call.core, price, params["currency"])
    identifier = call.store.new_id("checkout.session")
    return call.store.add(
        "checkout.session",
        {
            "amount_total": amount if trial_end is None else 0,
            "cancel_url": params["cancel_url"],
            "currency": params["currency"],
            "customer": customer["id"],
            "expires_at": now + LIFETIME,
            "status": "open",
            "success_url": params["success_url"],
            "url": f"{call.core.base_url}/c/pay/{identifier}",
        },
        identifier=identifier,
        hidden={"price": price["id"], "trial_end": trial_end},
    )


def _check(params: Json, trial_end: int | None, now: int) -> None:
    """Raise Refusal if a trial ends too early, or taxes need what the customer may not get from the page."""
    updates = params.get("customer_update", {})
    if trial_end is not None and trial_end < now + NEAREST_TRIAL_END:
        raise invalid("The `trial_end` date has to be at least 2 days in the future.", "subscription_data[trial_end]")
    if params.get("automatic_tax", {}).get("enabled") and updates.get("address") != "auto":
        message = "Automatic tax calculation in Checkout requires a valid address on the Customer."
        raise invalid(message, code="customer_tax_location_invalid")
    if params.get("tax_id_collection", {}).get("enabled") and updates.get("name") != "auto":
        raise invalid("Tax ID collection requires updating business name on the customer.")


def expire_session(call: Call) -> Json:
    """Expire an open session."""
    session = call.named("checkout.session")
    expire(call.core, session)
    return session


def expire(core: Core, session: Json) -> None:
    """Close an open session. Raise Refusal if it is not open."""
    if session["status"] != "open":
        raise invalid(f"Only open Checkout Sessions can be expired: this one has a status of `{session['status']}`.")
    session |= {"status": "expired", "url": None}
    core.announce("checkout.session.expired", session)


def complete(core: Core, session: Json, card: Card) -> None:
    """Subscribe, and pay if something is due. Raise Refusal if the payment fails: the session stays open then."""
    hidden, customer = core.store.hidden[session["id"]], core.store.get("customer", session["customer"], "customer")
    price = core.store.objects["price"][hidden["price"]]
    make_subscription(core, customer, price, session["currency"], hidden["trial_end"], card)
    session |= {"status": "complete", "url": None}
    core.announce("checkout.session.completed", session)


ROUTES = (
    Route(
        "POST",
        "/v1/checkout/sessions",
        create,
        {
            "automatic_tax": {"enabled!": bool},
            "cancel_url!": str,
            "client_reference_id": str,
            "currency!": str,
            "customer!": str,
            "customer_update": {"address": frozenset({"auto", "never"}), "name": frozenset({"auto", "never"})},
            "line_items!": [{"price!": str, "quantity": int}],
            "metadata": METADATA,
            "mode!": frozenset({"subscription"}),
            "subscription_data!": {"metadata": METADATA, "trial_end": int},
            "success_url!": str,
            "tax_id_collection": {"enabled!": bool},
        },
    ),
    Route("POST", "/v1/checkout/sessions/{id}/expire", expire_session, {}),
)
