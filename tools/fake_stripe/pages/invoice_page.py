"""The hosted page of an invoice: what it is for, its state, and a form to pay it."""

from html import escape

from tools.fake_stripe.core import Core
from tools.fake_stripe.pages.cards import read_card
from tools.fake_stripe.pages.html import CARD_FIELD, CARD_HINT, alert, form, money, page
from tools.fake_stripe.payments import save_card
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import settle
from tools.simulation.answers import Answer


def show(core: Core, invoice: Json, sent: dict[str, str] | None) -> Answer:
    """Return the page of an invoice, or pay it with the card that a person sent."""
    if sent is None or invoice["status"] != "open":
        return _page(core, invoice)
    try:
        card = read_card(sent)
        if isinstance(card, Answer):
            return card
        save_card(core, core.store.get("customer", invoice["customer"], "customer"), card)
        refusal = settle(core, invoice)
    except Refusal as error:
        refusal = error
    return _page(core, invoice, refusal.message if refusal else None)


def _page(core: Core, invoice: Json, message: str | None = None) -> Answer:
    lines = "".join(
        f"<li>{escape(line['description'])}: {money(line['amount'], invoice['currency'])}</li>"
        for line in core.store.hidden[invoice["id"]]["lines"]
    )
    body = f"{alert(message)}<p>{invoice['status'].capitalize()}</p><ul>{lines}</ul>"
    body += f"<p>Total: {money(invoice['total'], invoice['currency'])}</p>"
    if invoice["status"] == "open":
        body += form(f"{CARD_FIELD}<button>Pay</button>") + f"<p>{CARD_HINT}</p>"
    return page(f"Invoice {invoice['number']}", body)
