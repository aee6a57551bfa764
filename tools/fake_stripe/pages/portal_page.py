"""The billing portal: change the card, cancel and renew, change the plan, and see invoices."""

from datetime import UTC, datetime
from html import escape

from tools.fake_stripe.core import Core
from tools.fake_stripe.pages.cards import read_card
from tools.fake_stripe.pages.html import CARD_FIELD, CARD_HINT, alert, form, link, money, page, redirect
from tools.fake_stripe.payments import card_of_customer
from tools.fake_stripe.portal import choose_price, offered_prices
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import change_card, item_of, live_subscriptions, period_end, schedule_end
from tools.simulation.answers import Answer


class Visit:
    """A person in the portal."""

    def __init__(self, core: Core, session: Json) -> None:
        self.core, self.session = core, session
        self.customer = core.store.get("customer", session["customer"], "customer")
        self.features = core.store.objects["billing_portal.configuration"][session["configuration"]]["features"]

    @property
    def step(self) -> str:
        """Return the only step that the session shows; empty for all of them."""
        return self.session["flow"]["type"] if self.session["flow"] else ""

    def shows(self, feature: str) -> bool:
        """True if a feature is enabled, and the session is not about another one."""
        return bool(self.features[feature]["enabled"]) and self.step in {"", feature}

    def subscriptions(self) -> list[Json]:
        """Return the customer's subscriptions that have not ended."""
        return live_subscriptions(self.core, self.customer)


def show(core: Core, session: Json, sent: dict[str, str] | None) -> Answer:
    """Return the portal, or do what a person sent."""
    visit = Visit(core, session)
    if sent is None:
        return _page(visit)
    try:
        answer = _act(visit, sent)
    except Refusal as refusal:
        return _page(visit, refusal.message)
    return answer or redirect(session["url"])


def _act(visit: Visit, sent: dict[str, str]) -> Answer | None:
    """Do one thing; return a page if it needs another one first."""
    action, core = sent.get("action"), visit.core
    if action == "card" and visit.shows("payment_method_update"):
        card = read_card(sent, action="card")
        if isinstance(card, Answer):
            return card
        change_card(core, visit.customer, card)
        return None
    chosen = [each for each in visit.subscriptions() if each["id"] == sent.get("subscription")]
    if not chosen:
        return _page(visit, "There is no such subscription.")
    if action == "cancel" and visit.shows("subscription_cancel"):
        schedule_end(core, chosen[0], period_end(chosen[0]))
    elif action == "renew" and visit.shows("subscription_cancel"):
        schedule_end(core, chosen[0], None)
    elif action == "update" and visit.shows("subscription_update"):
        choose_price(core, chosen[0], visit.features["subscription_update"], sent.get("price", ""))
    else:
        return _page(visit, "This is not enabled.")
    return None


def _page(visit: Visit, message: str | None = None) -> Answer:
    parts = [alert(message)]
    parts += [_subscription(visit, each) for each in visit.subscriptions()]
    if visit.shows("payment_method_update"):
        card = card_of_customer(visit.core, visit.customer)
        text = f"Visa •••• {card.number[-4:]}" if card else "None"
        fields = f"{CARD_FIELD}<button>Save card</button>"
        parts.append(f"<h2>Payment method</h2><p>{text}</p>{form(fields, action='card')}<p>{CARD_HINT}</p>")
    if visit.shows("invoice_history"):
        parts.append(f"<h2>Invoices</h2><ul>{''.join(map(_invoice, _invoices(visit)))}</ul>")
    parts.append(link(visit.session["return_url"], "Return"))
    return page("Billing", "".join(parts))


def _subscription(visit: Visit, subscription: Json) -> str:
    item = item_of(subscription)
    product = visit.core.store.objects["product"][item["price"]["product"]]["name"]
    text = f"<h2>{escape(product)}</h2><p>{subscription['status'].replace('_', ' ').capitalize()}"
    if subscription["cancel_at"]:
        text += f", cancels {_day(subscription['cancel_at'])}"
    parts = [f"{text}</p>"]
    hidden = {"subscription": subscription["id"]}
    if visit.shows("subscription_cancel"):
        if subscription["cancel_at"]:
            parts.append(form("<button>Don't cancel subscription</button>", action="renew", **hidden))
        else:
            parts.append(form("<button>Cancel subscription</button>", action="cancel", **hidden))
    if visit.shows("subscription_update"):
        options = "".join(
            f'<option value="{price["id"]}">{escape(name)}, {money(price["unit_amount"], price["currency"])} per '
            f"{price['recurring']['interval']}</option>"
            for name, price in offered_prices(visit.core, visit.features["subscription_update"], item["price"])
        )
        choice = f'<label>Plan <select name="price">{options}</select></label><button>Update subscription</button>'
        parts.append(form(choice, action="update", **hidden) if options else "")
    return "".join(parts)


def _invoices(visit: Visit) -> list[Json]:
    mine = [each for each in visit.core.store.all("invoice") if each["customer"] == visit.customer["id"]]
    return [each for each in mine if each["status"] != "draft"]


def _invoice(invoice: Json) -> str:
    amount = money(invoice["total"], invoice["currency"])
    name = f"{_day(invoice['created'])}, {amount}, {invoice['status']}"
    return f"<li>{link(invoice['hosted_invoice_url'], name)}</li>"


def _day(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
