"""What people write into the card fields of hosted pages."""

from tools.fake_stripe.cards import Card, card_of
from tools.fake_stripe.refusals import card_error

NOT_AUTHENTICATED = (
    "We are unable to authenticate your payment method. Please choose a different payment method and try again."
)


def read_card(sent: dict[str, str]) -> Card:
    """Return the card of a form. Raise Refusal if it is not a test card."""
    card = card_of(sent.get("card", ""))
    if card is None:
        raise card_error("incorrect_number", "Your card number is invalid.")
    return card
