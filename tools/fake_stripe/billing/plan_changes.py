"""Another price or quantity in the middle of a period: prorations."""

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.invoicing import Line
from tools.fake_stripe.billing.subscription_items import (
    add_item,
    interval_of,
    line_of,
    make_invoice_item,
    plan_of,
    recurring_price,
    restart,
)
from tools.fake_stripe.billing.subscriptions import bill_now
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import Refusal, invalid, missing_parameter
from tools.fake_stripe.store import Json


def change_items(core: Core, subscription: Json, changes: list[Json], proration: str) -> None:
    """Change, add and delete items.

    What is left of the period is credited at the old price and charged at the new one; another interval begins a new
    period. `proration` is `always_invoice`, `create_prorations` (billed with the next invoice) or `none`.
    """
    now, items = core.now(subscription["customer"]), subscription["items"]["data"]
    before = {item["id"]: dict(item) for item in items}
    try:
        for position, change in enumerate(changes):
            _change_item(core, subscription, change, position)
        intervals = {interval_of(item["price"]["recurring"]) for item in items}
        if len(intervals) != 1:
            raise invalid("All prices on a subscription must have the same recurring interval.", "items")
    except Refusal:
        items[:] = list(before.values())
        raise
    old = next(iter(before.values()))["price"]["recurring"]
    if subscription["status"] in {"trialing", "paused"}:
        return
    restarts = interval_of(old) not in intervals
    unused, rest = _prorations(core, subscription, before, now)
    if restarts:
        restart(core, subscription)
        full = [line_of(core, subscription, item) for item in items]
        bill_now(core, subscription, (unused if proration != "none" else []) + full)
    elif proration == "always_invoice" and (unused or rest):
        bill_now(core, subscription, unused + rest)
    elif proration == "create_prorations":
        for line in unused + rest:
            make_invoice_item(core, subscription, line)


def _change_item(core: Core, subscription: Json, change: Json, position: int) -> None:
    items = subscription["items"]["data"]
    found = next((each for each in items if each["id"] == change.get("id")), None)
    if "id" in change and found is None:
        raise invalid(f"No such subscription item: '{change['id']}'", f"items[{position}][id]", "resource_missing")
    if change.get("deleted") and found:
        items.remove(found)
        return
    price = recurring_price(core, change, position) if "price" in change else None
    if price:
        amount_in(core, price, subscription["currency"])
    if found is None:
        if price is None:
            raise missing_parameter(f"items[{position}][price]")
        start, end = core.now(subscription["customer"]), items[0]["current_period_end"]
        add_item(core, subscription, price, change, start, end)
        return
    if price:
        found |= {"plan": plan_of(price), "price": price}
    found["quantity"] = change.get("quantity", found["quantity"])
    found["metadata"] = change.get("metadata", found["metadata"])


def _prorations(core: Core, subscription: Json, before: dict[str, Json], now: int) -> tuple[list[Line], list[Line]]:
    """Return credits for what was paid and is not used, and charges for what replaces it until the period's end."""
    after = {item["id"]: item for item in subscription["items"]["data"]}
    unused, rest = [], []
    for identifier in {**before, **after}:
        old, new = before.get(identifier), after.get(identifier)
        if old and new and (old["price"]["id"], old["quantity"]) == (new["price"]["id"], new["quantity"]):
            continue
        if old:
            unused.append(_proration(core, subscription, old, now, sign=-1))
        if new:
            rest.append(_proration(core, subscription, new, now, sign=1))
    return unused, rest


def _proration(core: Core, subscription: Json, item: Json, now: int, sign: int) -> Line:
    """Return the line for an item from now to the period's end: a charge if `sign` is 1, a credit if it is -1."""
    whole = line_of(core, subscription, item)
    share = (whole.end - now) / (whole.end - whole.start)
    text = f"{'Unused' if sign < 0 else 'Remaining'} time on {whole.description}"
    amount = sign * round(whole.amount * share)
    unit = sign * whole.unit_amount
    return Line(amount, text, now, whole.end, whole.price, unit, whole.quantity, item["id"], proration=True)
