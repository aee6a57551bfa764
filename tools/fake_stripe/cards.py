"""Stripe's test cards, by number."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """A test card and what its payments come to.

    A card that is `declined` cannot be saved; one that `fails` can, but pays nothing. `challenged`: the page asks for
    3-D Secure before it is used.
    """

    number: str
    declined: bool = False
    fails: bool = False
    challenged: bool = False


CARDS = {
    card.number: card
    for card in (
        Card("4242424242424242"),
        Card("4000000000000002", declined=True),
        Card("4000000000000341", fails=True),
        Card("4000002500003155", challenged=True),
    )
}


def card_of(number: str) -> Card | None:
    """Return the test card of a number, which may have spaces."""
    return CARDS.get("".join(number.split()))
