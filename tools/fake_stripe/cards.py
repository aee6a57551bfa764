"""Stripe's test cards, by number and by token."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Card:
    """A test card and what its payments come to.

    `declined` is the decline code of every charge. A card with `refused_at_once` cannot be saved either; without it
    only charges fail. `challenge` says when 3-D Secure is required: for the first payment, or for every payment.
    """

    number: str
    brand: str = "visa"
    declined: str | None = None
    refused_at_once: bool = True
    challenge: Literal["never", "first", "always"] = "never"


CARDS = {
    card.number: card
    for card in (
        Card("4242424242424242"),
        Card("4000000000000002", declined="generic_decline"),
        Card("4000000000009995", declined="insufficient_funds"),
        Card("4000000000000341", declined="generic_decline", refused_at_once=False),
        Card("4000002500003155", challenge="first"),
        Card("4000002760003184", challenge="always"),
    )
}
TOKENS = {
    "pm_card_visa": "4242424242424242",
    "pm_card_chargeCustomerFail": "4000000000000341",
    "pm_card_authenticationRequired": "4000002760003184",
}
DECLINE_MESSAGES = {
    "generic_decline": "Your card was declined.",
    "insufficient_funds": "Your card has insufficient funds.",
}


def card_of(number: str) -> Card | None:
    """Return the test card of a number, which may have spaces."""
    return CARDS.get("".join(number.split()))
