"""The hosted page of an invoice: what it is for, its state, and a form to pay it."""

from html import escape

from tools.fake_stripe.core import Core
from tools.fake_stripe.pages.cards import NOT_AUTHENTICATED, read_card
from tools.fake_stripe.pages.html import CARD_FIELD, CARD_HINT, alert, challenge_page, form, money, page
from tools.fake_stripe.payments import save_card
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import settle
from tools.simulation.answers import Answer


def show(core: Core, invoice: Json, sent: dict[str, str] | None) -> Answer:
    """Return the page of an invoice, or pay it with the card that a person sent."""
    if sent is None or invoice["status"] != "open":
        return _page(invoice)
    try:
        card = read_card(sent)
        if card.challenge != "never" and "challenge" not in sent:
            return challenge_page(card.number)
        if sent.get("challenge") == "fail":
            return _page(invoice, NOT_AUTHENTICATED)
        is_authenticated = sent.get("challenge") == "complete"
        method = save_card(core, card, core.store.get("customer", invoice["customer"], "customer"))
        refusal = settle(core, invoice, method, is_authenticated=is_authenticated).refusal
    except Refusal as error:
        refusal = error
    return _page(invoice, refusal.message if refusal else None)


def _page(invoice: Json, message: str | None = None) -> Answer:
    lines = "".join(
        f"<li>{escape(line['description'] or '')}: {money(line['amount'], line['currency'])}</li>"
        for line in invoice["lines"]["data"]
    )
    body = f"{alert(message)}<p>{invoice['status'].capitalize()}</p><ul>{lines}</ul>"
    body += f"<p>Amount due: {money(invoice['amount_remaining'], invoice['currency'])}</p>"
    if invoice["status"] == "open":
        body += form(f"{CARD_FIELD}<button>Pay</button>") + f"<p>{CARD_HINT}</p>"
    return page(f"Invoice {invoice['number']}", body)
