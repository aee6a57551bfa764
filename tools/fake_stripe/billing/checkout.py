"""Checkout sessions: what completes and what expires them."""

from tools.fake_stripe.billing.payment_methods import attach, detach, make_payment_method
from tools.fake_stripe.billing.subscriptions import make_subscription
from tools.fake_stripe.cards import Card
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import Refusal, invalid
from tools.fake_stripe.store import Json, blank


def needs_card(session: Json) -> bool:
    """True if a person has to give a card, even if nothing is due now."""
    return bool(session["amount_total"] or session["payment_method_collection"] == "always")


def complete(
    core: Core, session: Json, card: Card | None, country: str | None = None, *, is_authenticated: bool = False
) -> None:
    """Subscribe, and pay if something is due. Raise Refusal if the payment fails: the session stays open then.

    The country becomes the customer's address if the session may save that.
    """
    hidden = core.store.hidden[session["id"]]
    customer = core.store.get("customer", session["customer"], "customer")
    subscription = _subscribe(core, session, customer, card, is_authenticated=is_authenticated)
    if country and hidden["takes_address"]:
        customer["address"] = {**blank("city line1 line2 postal_code state"), "country": country}
        core.announce("customer.updated", customer)
    if session["automatic_tax"]["enabled"]:
        session["automatic_tax"]["status"] = "complete"
    session |= {
        "customer_details": {
            **{name: customer[name] for name in ("address", "email", "name", "phone", "tax_exempt")},
            **blank("business_name individual_name"),
            "tax_ids": [],
        },
        "invoice": subscription["latest_invoice"],
        "payment_status": "no_payment_required" if subscription["status"] == "trialing" else "paid",
        "status": "complete",
        "subscription": subscription["id"],
        "url": None,
    }
    core.store.changes += 1
    core.announce("checkout.session.completed", session)


def _subscribe(core: Core, session: Json, customer: Json, card: Card | None, *, is_authenticated: bool) -> Json:
    """Add what the session sells. Raise Refusal if the payment fails: the card is not kept then."""
    hidden = core.store.hidden[session["id"]]
    method = None
    if card:
        method = make_payment_method(core, card, {"email": customer["email"], "name": customer["name"]})
        attach(core, method, customer)
        core.store.hidden[method["id"]]["is_authenticated"] = is_authenticated
    params = {
        **hidden["subscription_data"],
        "automatic_tax": {"enabled": session["automatic_tax"]["enabled"]},
        "currency": session["currency"],
        "default_payment_method": method and method["id"],
        "items": hidden["items"],
        "payment_behavior": "error_if_incomplete",
    }
    try:
        return make_subscription(core, customer, params, method, is_authenticated=is_authenticated)
    except Refusal:
        if method:
            detach(core, method)
        raise


def expire(core: Core, session: Json) -> None:
    """Close an open session. Raise Refusal if it is not open."""
    if session["status"] != "open":
        message = (
            'Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of '
        )
        raise invalid(f"{message}`{session['status']}`.")
    session |= {"status": "expired", "url": None}
    core.store.changes += 1
    core.announce("checkout.session.expired", session)
