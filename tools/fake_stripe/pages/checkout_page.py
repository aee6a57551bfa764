"""The page of a checkout session: pay with a card, decline, 3-D Secure, or go back."""

from html import escape

from tools.fake_stripe.billing.checkout import complete, needs_card
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
    card = read_card(sent) if needs_card(session) else None
    country = sent.get("country") or None
    if card and card.challenge != "never" and "challenge" not in sent:
        return challenge_page(card.number, country=country or "")
    if sent.get("challenge") == "fail":
        return _page(core, session, NOT_AUTHENTICATED)
    complete(core, session, card, country, is_authenticated=sent.get("challenge") == "complete")
    return redirect(session["success_url"].replace("{CHECKOUT_SESSION_ID}", session["id"]))


def _page(core: Core, session: Json, message: str | None = None) -> Answer:
    hidden = core.store.hidden[session["id"]]
    rows = "".join(
        f"<li>{escape(item['description'])}: {money(item['amount_total'], item['currency'])} per "
        f"{item['price']['recurring']['interval']}</li>"
        for item in hidden["line_items"]["data"]
        if item["price"]["recurring"]
    )
    trial = hidden["subscription_data"].keys() & {"trial_end", "trial_period_days"}
    title, button = ("Start your free trial", "Start trial") if trial else ("Subscribe", "Subscribe")
    fields = CARD_FIELD if needs_card(session) else ""
    if hidden["takes_address"]:
        fields += '<label>Country <input name="country" value="DE" maxlength="2" autocomplete="country"></label>'
    due = f"<p>Due today: {money(session['amount_total'], session['currency'])}</p>"
    body = f"{alert(message)}<ul>{rows}</ul>{due}{form(fields + f'<button>{button}</button>')}{_back(session)}"
    return page(title, f"{body}<p>{CARD_HINT}</p>")


def _back(session: Json) -> str:
    return link(session["cancel_url"], "Back") if session["cancel_url"] else ""
