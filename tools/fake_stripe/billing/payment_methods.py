"""Cards of customers, and what charging them comes to."""

from dataclasses import dataclass

from tools.fake_stripe.cards import CARDS, DECLINE_MESSAGES, Card
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import Refusal, card_error, invalid
from tools.fake_stripe.store import Json, blank

EXPIRY_YEAR = 2034


@dataclass(frozen=True, slots=True)
class Charge:
    """The outcome of a charge: paid if there is no refusal; `challenge`: 3-D Secure is required."""

    refusal: Refusal | None = None
    challenge: bool = False

    @property
    def is_paid(self) -> bool:
        """True if the money came."""
        return self.refusal is None


def make_payment_method(core: Core, card: Card, billing_details: Json | None = None) -> Json:
    """Add a card that belongs to no customer yet."""
    details = {**blank("address email name phone tax_id"), **(billing_details or {})}
    details["address"] = {**blank("city country line1 line2 postal_code state"), **(details["address"] or {})}
    return core.store.add(
        "payment_method",
        {
            "allow_redisplay": "unspecified",
            "billing_details": details,
            "card": {
                **blank("description generated_from iin issuer regulated_status wallet"),
                "brand": card.brand,
                "checks": {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass"},
                "country": "US",
                "display_brand": card.brand,
                "exp_month": 12,
                "exp_year": EXPIRY_YEAR,
                "fingerprint": f"fake{card.number[-12:]}",
                "funding": "credit",
                "last4": card.last4,
                "networks": {"available": [card.brand], "preferred": None},
                "three_d_secure_usage": {"supported": True},
            },
            "created": core.now(),
            "customer": None,
            "customer_account": None,
            "livemode": False,
            "metadata": {},
            "radar_options": {"session": None},
            "type": "card",
        },
        hidden={"number": card.number, "is_authenticated": False},
    )


def card_behind(core: Core, payment_method: Json) -> Card:
    """Return the test card of a payment method."""
    return CARDS[core.store.hidden[payment_method["id"]]["number"]]


def attach(core: Core, payment_method: Json, customer: Json) -> None:
    """Save a card for a customer. Raise Refusal if the card is declined."""
    card = card_behind(core, payment_method)
    if payment_method["customer"] not in {None, customer["id"]}:
        raise invalid("The payment method you provided has already been attached to a customer.")
    if card.declined and card.refused_at_once:
        raise declined(card)
    payment_method["customer"] = customer["id"]
    core.store.changes += 1
    core.announce("payment_method.attached", payment_method)


def detach(core: Core, payment_method: Json) -> None:
    """Take a card from its customer."""
    if payment_method["customer"] is None:
        message = "The payment method you provided is not attached to a customer so detachment is impossible."
        raise invalid(message, code="payment_method_not_attached")
    customer = core.store.find("customer", payment_method["customer"])
    payment_method["customer"] = None
    if customer and customer["invoice_settings"]["default_payment_method"] == payment_method["id"]:
        customer["invoice_settings"]["default_payment_method"] = None
    for subscription in core.store.all("subscription"):
        if subscription["default_payment_method"] == payment_method["id"]:
            subscription["default_payment_method"] = None
    core.store.changes += 1
    core.announce("payment_method.detached", payment_method)


def declined(card: Card) -> Refusal:
    """Return the refusal of a card that is declined."""
    code = card.declined or "generic_decline"
    return card_error("card_declined", DECLINE_MESSAGES[code], code)


def charge(core: Core, payment_method: Json | None, *, is_authenticated: bool = False) -> Charge:
    """Charge a card. `is_authenticated`: the customer is there and has passed 3-D Secure for this payment."""
    if payment_method is None:
        return Charge(card_error("missing", "This customer has no attached payment source or default payment method."))
    card = card_behind(core, payment_method)
    if card.declined:
        return Charge(declined(card))
    known = core.store.hidden[payment_method["id"]]["is_authenticated"]
    if not is_authenticated and (card.challenge == "always" or (card.challenge == "first" and not known)):
        message = "Your card was declined. This transaction requires authentication."
        return Charge(card_error("authentication_required", message, "authentication_required"), challenge=True)
    if is_authenticated:
        core.store.hidden[payment_method["id"]]["is_authenticated"] = True
    return Charge()


def payment_method_of(core: Core, customer: Json, subscription: Json | None = None) -> Json | None:
    """Return the card that is charged: the subscription's, or the customer's default."""
    own = subscription["default_payment_method"] if subscription else None
    return core.store.find("payment_method", own or customer["invoice_settings"]["default_payment_method"])
