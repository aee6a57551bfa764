"""The page of a checkout session: pay with a card, decline, 3-D Secure, or go back."""

from html import escape

from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.checkout import complete
from tools.fake_stripe.core import Core
from tools.fake_stripe.pages.cards import NOT_AUTHENTICATED, read_card
from tools.fake_stripe.pages.html import CARD_FIELD, CARD_HINT, alert, challenge_page, form, link, money, page, redirect
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json
from tools.simulation.answers import Answer


def show(core: Core, session: Json, sent: dict[str, str] | None) -> Answer:
    """Return the page of a session, or complete the session with what a person sent."""
    if session["status"] == "complete":
        return page("All done here", "<p>You have completed your payment.</p>")
    if session["status"] == "expired":
        return page("This link has expired", f"<p>{_back(session)}</p>", 404)
    if sent is None:
        return _page(core, session)
    try:
        return _pay(core, session, sent)
    except Refusal as refusal:
        return _page(core, session, refusal.message)


def _pay(core: Core, session: Json, sent: dict[str, str]) -> Answer:
    card, country = read_card(sent), sent.get("country") or None
    if card.challenge != "never" and "challenge" not in sent:
        return challenge_page(card.number, country=country or "")
    if sent.get("challenge") == "fail":
        return _page(core, session, NOT_AUTHENTICATED)
    complete(core, session, card, country, is_authenticated=sent.get("challenge") == "complete")
    return redirect(session["success_url"].replace("{CHECKOUT_SESSION_ID}", session["id"]))


def _page(core: Core, session: Json, message: str | None = None) -> Answer:
    hidden, currency = core.store.hidden[session["id"]], session["currency"]
    price = core.store.objects["price"][hidden["price"]]
    name, amount = core.store.objects["product"][price["product"]]["name"], amount_in(core, price, currency)
    fields = CARD_FIELD
    if session["automatic_tax"]["enabled"]:
        fields += '<label>Country <input name="country" value="DE" maxlength="2" autocomplete="country"></label>'
    is_trial = "trial_end" in hidden["subscription_data"]
    title, button = ("Start your free trial", "Start trial") if is_trial else ("Subscribe", "Subscribe")
    row = f"<p>{escape(name)}: {money(amount, currency)} per {price['recurring']['interval']}</p>"
    due = f"<p>Due today: {money(session['amount_total'], currency)}</p>"
    body = f"{alert(message)}{row}{due}{form(fields + f'<button>{button}</button>')}{_back(session)}"
    return page(title, f"{body}<p>{CARD_HINT}</p>")


def _back(session: Json) -> str:
    return link(session["cancel_url"], "Back") if session["cancel_url"] else ""
