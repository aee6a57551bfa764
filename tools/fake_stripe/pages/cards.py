"""What people write into the card fields of hosted pages."""

from tools.fake_stripe.cards import Card, card_of
from tools.fake_stripe.pages.html import form, page
from tools.fake_stripe.refusals import card_error
from tools.simulation.answers import Answer

NOT_AUTHENTICATED = (
    "We are unable to authenticate your payment method. Please choose a different payment method and try again."
)


def read_card(sent: dict[str, str], **hidden: str) -> Card | Answer:
    """Return the card of a form, or the page of the bank if 3-D Secure comes first; `hidden` is sent on from there.

    Raise Refusal if it is not a test card, or 3-D Secure was failed.
    """
    card = card_of(sent.get("card", ""))
    if card is None:
        raise card_error("incorrect_number", "Your card number is invalid.")
    if card.challenged and "challenge" not in sent:
        return _challenge_page(card.number, **hidden)
    if sent.get("challenge") == "fail":
        raise card_error("authentication_required", NOT_AUTHENTICATED)
    return card


def _challenge_page(card: str, **hidden: str) -> Answer:
    buttons = (
        '<button name="challenge" value="complete">Complete authentication</button> '
        '<button name="challenge" value="fail">Fail authentication</button>'
    )
    return page("3D Secure 2 Test Page", form(buttons, card=card, **hidden))
