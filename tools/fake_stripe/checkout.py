"""Checkout sessions, in the mode `subscription`: calls, and what completes and expires a session."""

from tools.fake_stripe.cards import Card
from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.core import Core
from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.payments import save_card
from tools.fake_stripe.periods import DAY
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import active_price, currency_of, make_subscription

LIFETIME = DAY
NEAREST_TRIAL_END = 2 * DAY


def create(call: Call) -> Json:
    """Add an open session with the address of its page. Raise Refusal if the parameters do not fit together."""
    params, now = call.params, call.core.moment
    customer = call.store.get("customer", params["customer"], "customer")
    data = params.get("subscription_data", {})
    _check(params, data, now)
    price = active_price(call.core, params["line_items"][0]["price"])
    currency = currency_of(call.core, customer, price, params.get("currency"))
    total = 0 if "trial_end" in data else amount_in(call.core, price, currency)
    identifier = call.store.new_id("checkout.session")
    return call.store.add(
        "checkout.session",
        {
            "amount_total": total,
            "automatic_tax": {"enabled": params.get("automatic_tax", {}).get("enabled", False)},
            "cancel_url": params.get("cancel_url"),
            "client_reference_id": params.get("client_reference_id"),
            "created": now,
            "currency": currency,
            "customer": customer["id"],
            "expires_at": now + LIFETIME,
            "livemode": False,
            "metadata": params.get("metadata", {}),
            "mode": params["mode"],
            "payment_status": "unpaid",
            "status": "open",
            "subscription": None,
            "success_url": params["success_url"],
            "url": f"{call.core.base_url}/c/pay/{identifier}",
        },
        identifier=identifier,
        hidden={"price": price["id"], "subscription_data": data},
    )


def _check(params: Json, data: Json, now: int) -> None:
    """Raise Refusal if a trial ends too early, or taxes need what the customer may not get from the page."""
    updates = params.get("customer_update", {})
    if "trial_end" in data and data["trial_end"] < now + NEAREST_TRIAL_END:
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


def complete(core: Core, session: Json, card: Card, country: str | None = None, *, is_authenticated: bool) -> None:
    """Subscribe, and pay if something is due. Raise Refusal if the payment fails: the session stays open then.

    The country becomes the customer's address if taxes are computed from it.
    """
    hidden, customer = core.store.hidden[session["id"]], core.store.get("customer", session["customer"], "customer")
    has_tax = session["automatic_tax"]["enabled"]
    method = save_card(core, card, customer, is_authenticated=is_authenticated)
    more = {"price": hidden["price"], "currency": session["currency"], "automatic_tax": has_tax}
    params = {**hidden["subscription_data"], **more}
    subscription = make_subscription(core, customer, params, method, is_authenticated=is_authenticated)
    if country and has_tax:
        customer["address"] = {"country": country}
        core.announce("customer.updated", customer)
    session |= {
        "payment_status": "no_payment_required" if subscription["status"] == "trialing" else "paid",
        "status": "complete",
        "subscription": subscription["id"],
        "url": None,
    }
    core.announce("checkout.session.completed", session)


ROUTES = (
    Route(
        "POST",
        "/v1/checkout/sessions",
        create,
        {
            "automatic_tax": {"enabled!": bool},
            "cancel_url": str,
            "client_reference_id": str,
            "currency": str,
            "customer!": str,
            "customer_update": {"address": frozenset({"auto", "never"}), "name": frozenset({"auto", "never"})},
            "line_items!": [{"price!": str, "quantity": int}],
            "metadata": METADATA,
            "mode!": frozenset({"subscription"}),
            "subscription_data": {"metadata": METADATA, "trial_end": int},
            "success_url!": str,
            "tax_id_collection": {"enabled!": bool},
        },
    ),
    Route("POST", "/v1/checkout/sessions/{id}/expire", expire_session, {}),
)
