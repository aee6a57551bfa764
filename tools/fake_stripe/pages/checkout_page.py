"""The page of a checkout session: pay with a card, decline, 3-D Secure, or go back."""

from html import escape

from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.checkout import complete
from tools.fake_stripe.core import Core
from tools.fake_stripe.pages.cards import read_card
from tools.fake_stripe.pages.html import CARD_FIELD, CARD_HINT, alert, form, link, money, page, redirect
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json
from tools.simulation.answers import Answer


def show(core: Core, session: Json, sent: dict[str, str] | None) -> Answer:
    """Return the page of a session, or complete the session with what a person sent."""
    if session["status"] == "complete":
        return page("All done here", "<p>You have completed your payment.</p>")
    if session["status"] == "expired":
        return page("This link has expired", f"<p>{link(session['cancel_url'], 'Back')}</p>", 404)
    if sent is None:
        return _page(core, session)
    try:
        return _pay(core, session, sent)
    except Refusal as refusal:
        return _page(core, session, refusal.message)


def _pay(core: Core, session: Json, sent: dict[str, str]) -> Answer:
    card = read_card(sent)
    if isinstance(card, Answer):
        return card
    complete(core, session, card)
    return redirect(session["success_url"].replace("{CHECKOUT_SESSION_ID}", session["id"]))


def _page(core: Core, session: Json, message: str | None = None) -> Answer:
    hidden, currency = core.store.hidden[session["id"]], session["currency"]
    price = core.store.objects["price"][hidden["price"]]
    name, amount = core.store.objects["product"][price["product"]]["name"], amount_in(core, price, currency)
    title, button = ("Start your free trial", "Start trial") if hidden["trial_end"] else ("Subscribe", "Subscribe")
    row = f"<p>{escape(name)}: {money(amount, currency)} per {price['recurring']['interval']}</p>"
    due = f"<p>Due today: {money(session['amount_total'], currency)}</p>"
    pay, back = form(f"{CARD_FIELD}<button>{button}</button>"), link(session["cancel_url"], "Back")
    return page(title, f"{alert(message)}{row}{due}{pay}{back}<p>{CARD_HINT}</p>")
