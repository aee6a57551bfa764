"""Subscriptions: from the first invoice over renewals, changes of plan and failed payments to the end."""

from tools.fake_stripe.cards import Card
from tools.fake_stripe.catalogue import amount_in
from tools.fake_stripe.core import Core
from tools.fake_stripe.invoicing import Line, collect, finalize, make_invoice, subscription_of
from tools.fake_stripe.payments import card_of_customer, charge, save_card
from tools.fake_stripe.periods import end_of_period
from tools.fake_stripe.refusals import Refusal, invalid
from tools.fake_stripe.store import Json

BILLED = {"trialing", "active", "past_due", "unpaid"}
"""States in which periods go on: the others are ends."""
PRORATION = frozenset({"always_invoice", "none"})
"""What is left of a period is billed at once, or not at all; the service has no use for `create_prorations`."""


def is_live(subscription: Json) -> bool:
    """True if a subscription has not ended."""
    return subscription["status"] in BILLED


def live_subscriptions(core: Core, customer: Json) -> list[Json]:
    """Return a customer's subscriptions that have not ended, the newest first."""
    return [each for each in core.store.all("subscription") if each["customer"] == customer["id"] and is_live(each)]


def item_of(subscription: Json) -> Json:
    """Return the only item of a subscription."""
    [item] = subscription["items"]["data"]
    found: Json = item
    return found


def period_end(subscription: Json) -> int:
    """Return the end of the current period."""
    return int(item_of(subscription)["current_period_end"])


def active_price(core: Core, identifier: str) -> Json:
    """Return a price that can be bought. Raise Refusal if there is none."""
    price = core.store.get("price", identifier, "items[0][price]")
    if not price["active"]:
        raise invalid(f"The price specified is inactive: {price['id']}", "items[0][price]")
    return price


def make_subscription(
    core: Core, customer: Json, price: Json, currency: str, trial_end: int | None = None, card: Card | None = None
) -> Json:
    """Add a subscription, and collect its first invoice. Raise Refusal if that cannot be paid.

    `card` is charged from now on; without one, the customer's is.
    """
    if amount_in(core, price, currency) and trial_end is None:
        refusal = charge(card or card_of_customer(core, customer))
        if refusal:
            raise refusal
    if card:
        save_card(core, customer, card)
    subscription = _add(core, customer, price, currency, trial_end)
    core.announce("customer.subscription.created", subscription)
    invoice = make_invoice(core, subscription, [Line(0, "Free trial") if trial_end else _line(core, subscription)])
    finalize(core, invoice)
    if invoice["status"] == "open":
        settle(core, invoice)
    return subscription


def _add(core: Core, customer: Json, price: Json, currency: str, trial_end: int | None) -> Json:
    now = core.moment
    identifier = core.store.new_id("subscription")
    item = {
        "id": core.store.new_id("subscription_item"),
        "object": "subscription_item",
        "current_period_end": trial_end or end_of_period(now, price["recurring"], now),
        "current_period_start": now,
        "price": price,
    }
    return core.store.add(
        "subscription",
        {
            "billing_cycle_anchor": trial_end or now,
            "cancel_at": None,
            "cancel_at_period_end": False,
            "created": now,
            "currency": currency,
            "customer": customer["id"],
            "items": {
                "object": "list",
                "data": [item],
                "has_more": False,
                "url": f"/v1/subscription_items?subscription={identifier}",
            },
            "latest_invoice": None,
            "status": "trialing" if trial_end else "active",
            "trial_end": trial_end,
        },
        identifier=identifier,
        hidden={"next_price": None},
    )


def _line(core: Core, subscription: Json, since: int | None = None, *, sign: int = 1) -> Line:
    """Return the line of the current period, or of what is left of it: a charge, or a credit if `sign` is -1."""
    item = item_of(subscription)
    start, end = item["current_period_start"], item["current_period_end"]
    amount = amount_in(core, item["price"], subscription["currency"])
    text = str(core.store.objects["product"][item["price"]["product"]]["name"])
    if since is None:
        return Line(amount, text)
    words = "Remaining" if sign > 0 else "Unused"
    return Line(sign * round(amount * (end - since) / (end - start)), f"{words} time on {text}")


def settle(core: Core, invoice: Json) -> Refusal | None:
    """Collect an open invoice, and let its subscription be active or past due."""
    subscription = subscription_of(core, invoice)
    refusal = collect(core, invoice)
    before = subscription["status"]
    if refusal and before == "active":
        subscription["status"] = "past_due"
    elif not refusal and before in {"past_due", "unpaid"} and invoice["id"] == subscription["latest_invoice"]:
        subscription["status"] = "active"
    if subscription["status"] != before:
        core.announce("customer.subscription.updated", subscription)
    return refusal


def change_card(core: Core, customer: Json, card: Card) -> None:
    """Charge another card from now on, and pay with it what is open. Raise Refusal if it is declined."""
    save_card(core, customer, card)
    for subscription in live_subscriptions(core, customer):
        invoice = core.store.find("invoice", subscription["latest_invoice"])
        if invoice and invoice["status"] == "open":
            settle(core, invoice)


def collect_automatically(core: Core, invoice: Json) -> None:
    """Collect an invoice when it is due; after the last failed attempt do what is set for that."""
    settle(core, invoice)
    subscription = subscription_of(core, invoice)
    given_up = invoice["status"] == "open" and invoice["next_payment_attempt"] is None
    if given_up and subscription["status"] == "past_due" and core.settings.after_retries == "cancel":
        end_subscription(core, subscription)
    elif given_up and subscription["status"] == "past_due" and core.settings.after_retries == "unpaid":
        subscription["status"] = "unpaid"
        core.announce("customer.subscription.updated", subscription)


def end_subscription(core: Core, subscription: Json) -> None:
    """Cancel a subscription now. Raise Refusal if it has ended already."""
    if not is_live(subscription):
        raise invalid(f"No such subscription: '{subscription['id']}'", "id", "resource_missing", 404)
    subscription["status"] = "canceled"
    for invoice in core.store.all("invoice"):
        if invoice["status"] in {"draft", "open"} and subscription_of(core, invoice) is subscription:
            invoice |= {"automatically_finalizes_at": None, "next_payment_attempt": None}
    core.announce("customer.subscription.deleted", subscription)


def schedule_end(core: Core, subscription: Json, moment: int | None) -> None:
    """Let a subscription end at a moment, as the portal does: the flag `cancel_at_period_end` stays as it is."""
    subscription["cancel_at"] = moment
    core.announce("customer.subscription.updated", subscription)


def renew(core: Core, subscription: Json) -> None:
    """Begin the next period, with a draft of its invoice; the end of a trial does the same."""
    item, hidden = item_of(subscription), core.store.hidden[subscription["id"]]
    start = item["current_period_end"]
    if hidden["next_price"]:
        if interval_of(item["price"]) != interval_of(core.store.objects["price"][hidden["next_price"]]):
            subscription["billing_cycle_anchor"] = start
        item["price"], hidden["next_price"] = core.store.objects["price"][hidden["next_price"]], None
    end = end_of_period(subscription["billing_cycle_anchor"], item["price"]["recurring"], start)
    item |= {"current_period_end": end, "current_period_start": start}
    if subscription["status"] == "trialing":
        subscription["status"] = "active"
    invoice = make_invoice(core, subscription, [_line(core, subscription)])
    if subscription["status"] != "unpaid":  # what is unpaid is not collected: drafts pile up
        invoice["automatically_finalizes_at"] = core.moment + core.settings.invoice_draft_seconds
    core.announce("customer.subscription.updated", subscription)


def interval_of(price: Json) -> str:
    """Return the unit of a price's period."""
    return str(price["recurring"]["interval"])


def end_trial(core: Core, subscription: Json) -> None:
    """End a trial now: the first paid period begins, and is collected at once."""
    subscription |= {"status": "active", "trial_end": core.moment}
    _restart(core, subscription)
    _bill_now(core, subscription, [_line(core, subscription)])


def _restart(core: Core, subscription: Json) -> None:
    item, now = item_of(subscription), core.moment
    subscription["billing_cycle_anchor"] = now
    end = end_of_period(now, item["price"]["recurring"], now)
    item |= {"current_period_end": end, "current_period_start": now}


def change_price(core: Core, subscription: Json, price: Json, proration: str) -> None:
    """Change the price now. Another interval begins a new period, which is billed at once.

    What is left of the period is credited at the old price and charged at the new one, unless `proration` is `none`.
    """
    amount_in(core, price, subscription["currency"])
    item, now = item_of(subscription), core.moment
    core.store.hidden[subscription["id"]]["next_price"] = None
    unused = [_line(core, subscription, now, sign=-1)] if proration != "none" else []
    restarts = interval_of(item["price"]) != interval_of(price)
    item["price"] = price
    core.announce("customer.subscription.updated", subscription)
    if subscription["status"] == "trialing":
        return
    if restarts:
        _restart(core, subscription)
        _bill_now(core, subscription, [*unused, _line(core, subscription)])
    elif proration != "none":
        _bill_now(core, subscription, [*unused, _line(core, subscription, now)])


def _bill_now(core: Core, subscription: Json, lines: list[Line]) -> None:
    """Invoice some lines and collect them at once; what is unpaid gets a draft only."""
    invoice = make_invoice(core, subscription, lines)
    if subscription["status"] == "unpaid":
        return
    finalize(core, invoice)
    if invoice["status"] == "open":
        settle(core, invoice)
