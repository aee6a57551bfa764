"""Cards of customers, and what charging them comes to."""

from dataclasses import dataclass

from tools.fake_stripe.cards import CARDS, DECLINE_MESSAGES, Card
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import Refusal, card_error
from tools.fake_stripe.store import Json


@dataclass(frozen=True, slots=True)
class Charge:
    """The outcome of a charge: paid if there is no refusal; `challenge`: 3-D Secure is required."""

    refusal: Refusal | None = None
    challenge: bool = False


def save_card(core: Core, card: Card, customer: Json, *, is_authenticated: bool = False) -> Json:
    """Save a card for a customer, and return the payment method. Raise Refusal if the card is declined."""
    if card.declined and card.refused_at_once:
        raise _declined(card)
    fields = {
        "card": {"brand": card.brand, "exp_month": 12, "exp_year": 2034, "last4": card.number[-4:]},
        "created": core.moment,
        "customer": customer["id"],
        "livemode": False,
        "type": "card",
    }
    hidden = {"number": card.number, "is_authenticated": is_authenticated}
    made = core.store.add("payment_method", fields, hidden=hidden)
    core.announce("payment_method.attached", made)
    return made


def _declined(card: Card) -> Refusal:
    code = card.declined or "generic_decline"
    return card_error("card_declined", DECLINE_MESSAGES[code], code)


def charge(core: Core, method: Json | None, *, is_authenticated: bool = False) -> Charge:
    """Charge a card. `is_authenticated`: the customer is there and has passed 3-D Secure for this payment."""
    if method is None:
        return Charge(card_error("missing", "This customer has no attached payment source or default payment method."))
    hidden = core.store.hidden[method["id"]]
    card = CARDS[hidden["number"]]
    if card.declined:
        return Charge(_declined(card))
    is_known = card.challenge == "first" and hidden["is_authenticated"]
    if card.challenge != "never" and not is_known and not is_authenticated:
        message = "Your card was declined. This transaction requires authentication."
        return Charge(card_error("authentication_required", message, "authentication_required"), challenge=True)
    hidden["is_authenticated"] = hidden["is_authenticated"] or is_authenticated
    return Charge()


def payment_method_of(core: Core, customer: Json, subscription: Json | None = None) -> Json | None:
    """Return the card that is charged: the subscription's, or the customer's default."""
    own = subscription["default_payment_method"] if subscription else None
    return core.store.find("payment_method", own or customer["invoice_settings"]["default_payment_method"])
