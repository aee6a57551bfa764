"""Items of subscriptions: their prices, periods and lines of invoices."""

from typing import Any

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.invoicing import Line
from tools.fake_stripe.billing.periods import end_of_period
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, blank

ENDED = {"canceled", "incomplete_expired"}


def recurring_price(core: Core, item: Json, position: int) -> Json:
    """Return the price that a parameter names. Raise Refusal if a subscription cannot have it."""
    price = core.store.get("price", item["price"], f"items[{position}][price]")
    if not price["active"]:
        message = f"The price specified is inactive. This field only accepts active prices: {price['id']}"
        raise invalid(message, f"items[{position}][price]")
    if price["recurring"] is None:
        message = (
            "The price specified is set to `type=one_time` but this field only accepts prices with `type=recurring`."
        )
        raise invalid(message, f"items[{position}][price]")
    return price


def currency_of(core: Core, customer: Json, prices: list[Json], wanted: str | None) -> str:
    """Return the currency in which a customer buys prices. Raise Refusal if it is not that of what they have."""
    live = [each for each in core.store.all("subscription") if each["customer"] == customer["id"] and is_live(each)]
    bound = live[0]["currency"] if live else None
    currency = wanted or bound or str(prices[0]["currency"])
    if bound and currency != bound:
        message = (
            "You cannot combine currencies on a single customer. This customer has an active subscription, "
            f"subscription schedule, discount, quote, invoice item, or a credit balance with currency {bound}."
        )
        raise invalid(message, "currency")
    for price in prices:
        amount_in(core, price, currency)
    return currency


def is_live(subscription: Json) -> bool:
    """True if a subscription has not ended."""
    return subscription["status"] not in ENDED


def interval_of(recurring: Json) -> tuple[str, int]:
    """Return unit and number of units of a period."""
    return recurring["interval"], recurring["interval_count"]


def add_item(core: Core, subscription: Json, price: Json, given: Json, start: int, end: int) -> Json:
    """Add an item with a period."""
    item = {
        "id": core.store.new_id("subscription_item"),
        "object": "subscription_item",
        "billed_until": start,
        "billing_thresholds": None,
        "created": start,
        "current_period_end": end,
        "current_period_start": start,
        "current_trial": None,
        "discounts": [],
        "metadata": given.get("metadata", {}),
        "plan": plan_of(price),
        "price": price,
        "quantity": given.get("quantity", 1),
        "subscription": subscription["id"],
        "tax_rates": [],
    }
    subscription["items"]["data"].append(item)
    return item


def plan_of(price: Json) -> Json:
    """Return the older form of a price, which items still show."""
    same = ("id", "active", "billing_scheme", "created", "currency", "livemode", "metadata", "nickname", "product")
    recurring = price["recurring"]
    return {
        **{name: price[name] for name in same},
        **blank("tiers_mode transform_usage"),
        "object": "plan",
        "amount": price["unit_amount"],
        "amount_decimal": price["unit_amount_decimal"],
        "interval": recurring["interval"],
        "interval_count": recurring["interval_count"],
        "meter": None,
        "trial_period_days": None,
        "usage_type": "licensed",
    }


def line_of(core: Core, subscription: Json, item: Json, *, is_free: bool = False) -> Line:
    """Return the line of an item for its current period."""
    price, quantity = item["price"], item["quantity"]
    unit = amount_in(core, price, subscription["currency"])
    product = core.store.objects["product"][price["product"]]["name"]
    amount = 0 if is_free else unit * quantity
    text = f"Free trial for {quantity} x {product}" if is_free else f"{quantity} x {product}"
    start, end = item["current_period_start"], item["current_period_end"]
    return Line(amount, text, start, end, price, unit, quantity, item["id"])


def period_end(subscription: Json) -> int:
    """Return the end of the current period."""
    return int(min(item["current_period_end"] for item in subscription["items"]["data"]))


def restart(core: Core, subscription: Json) -> None:
    """Begin a period now."""
    now = core.now(subscription["customer"])
    subscription["billing_cycle_anchor"] = now
    for item in subscription["items"]["data"]:
        end = end_of_period(now, item["price"]["recurring"], now)
        item |= {"billed_until": now, "current_period_end": end, "current_period_start": now}


def make_invoice_item(core: Core, subscription: Json, line: Line) -> Json:
    """Add a pending line, which the next invoice of the subscription gets."""
    details = {"subscription": subscription["id"], "subscription_item": line.subscription_item}
    customer = core.store.objects["customer"][subscription["customer"]]
    return add_invoice_item(
        core,
        customer,
        line.amount,
        subscription["currency"],
        description=line.description,
        parent={"subscription_details": details, "type": "subscription_details"},
        period={"end": line.end, "start": line.start},
        proration=line.proration,
    )


def add_invoice_item(core: Core, customer: Json, amount: int, currency: str, **fields: Any) -> Json:
    """Add an invoice item of a customer."""
    now = core.now(customer["id"])
    return core.store.add(
        "invoiceitem",
        {
            **blank("customer_account description frozen_fields invoice invoicing_rules parent proration_details"),
            "amount": amount,
            "currency": currency,
            "customer": customer["id"],
            "date": now,
            "discountable": True,
            "discounts": [],
            "livemode": False,
            "metadata": {},
            "net_amount": amount,
            "period": {"end": now, "start": now},
            "pricing": {"price_details": None, "type": "price_details", "unit_amount_decimal": str(amount)},
            "proration": False,
            "quantity": 1,
            "quantity_decimal": "1",
            "tax_rates": [],
            "test_clock": customer["test_clock"],
            **fields,
        },
    )


def pending_lines(core: Core, subscription: Json) -> list[Line]:
    """Return lines of what waits for the next invoice."""
    return [
        Line(
            each["amount"],
            each["description"] or "",
            each["period"]["start"],
            each["period"]["end"],
            invoice_item=each["id"],
            proration=each["proration"],
        )
        for each in _pending(core, subscription)
    ]


def _pending(core: Core, subscription: Json) -> list[Json]:
    """Return the invoice items of a subscription that no invoice has yet."""
    return [
        each
        for each in core.store.all("invoiceitem")
        if each["invoice"] is None
        and ((each["parent"] or {}).get("subscription_details") or {}).get("subscription") == subscription["id"]
    ]


def bill_pending(core: Core, subscription: Json, invoice: Json) -> None:
    """Record that an invoice has what was pending."""
    for each in _pending(core, subscription):
        each["invoice"] = invoice["id"]
