"""The card of a customer, and what charging it comes to."""

from tools.fake_stripe.cards import CARDS, Card
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import Refusal, card_error
from tools.fake_stripe.store import Json


def card_of_customer(core: Core, customer: Json) -> Card | None:
    """Return the card that is charged for a customer's subscriptions: the one they gave last."""
    return CARDS.get(core.store.hidden[customer["id"]]["card"])


def save_card(core: Core, customer: Json, card: Card) -> None:
    """Charge a card from now on. Raise Refusal if it is declined."""
    if card.declined:
        raise _declined()
    core.store.hidden[customer["id"]]["card"] = card.number
    core.announce("customer.updated", customer)


def charge(card: Card | None) -> Refusal | None:
    """Charge a card; return None if it pays."""
    if card is None:
        return card_error("missing", "This customer has no attached payment source or default payment method.")
    return _declined() if card.declined or card.fails else None


def _declined() -> Refusal:
    return card_error("card_declined", "Your card was declined.")
