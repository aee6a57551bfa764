"""Subscriptions: from the first invoice over renewals, changes and failed payments to the end."""

from typing import Any

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.invoicing import Line, close, collect, finalize, make_invoice
from tools.fake_stripe.billing.payment_methods import Charge, charge, payment_method_of
from tools.fake_stripe.billing.periods import DAY, end_of_period
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid, missing_parameter
from tools.fake_stripe.store import Json, blank

ENDED = {"canceled", "incomplete_expired"}
BILLED = {"trialing", "active", "past_due", "unpaid"}
"""States in which periods go on."""


def make_subscription(
    core: Core,
    customer: Json,
    params: Json,
    payment_method: Json | None = None,
    *,
    is_authenticated: bool = False,
) -> Json:
    """Add a subscription, and collect its first invoice from a card of the customer.

    Raise Refusal if the parameters do not fit together, or if it cannot be paid and `payment_behavior` requires that.
    """
    now = core.now(customer["id"])
    prices = [_recurring_price(core, item, position) for position, item in enumerate(params["items"])]
    if len({_interval(each["recurring"]) for each in prices}) > 1:
        raise invalid("All prices on a subscription must have the same recurring interval.", "items")
    currency = params.get("currency") or customer["currency"] or prices[0]["currency"]
    amounts = [amount_in(core, price, currency) for price in prices]
    trial_end = _trial_end(params, now)
    behavior = params.get("payment_behavior", "allow_incomplete")
    chosen = core.store.find("payment_method", params.get("default_payment_method"))
    method = payment_method or chosen or payment_method_of(core, customer)
    if any(amounts) and trial_end is None:
        _require_payment(core, behavior, method, is_authenticated=is_authenticated)
    subscription = _add(core, customer, params, currency, trial_end)
    end = trial_end or end_of_period(now, prices[0]["recurring"], now)
    for item, price in zip(params["items"], prices, strict=True):
        _add_item(core, subscription, price, item, now, end)
    if params.get("cancel_at_period_end"):
        subscription["cancel_at"] = end
    customer["currency"] = customer["currency"] or currency
    core.announce("customer.subscription.created", subscription)
    if trial_end:
        _announce_trial_end_if_near(core, subscription)
    _bill_first_period(core, subscription, behavior, method, is_authenticated=is_authenticated)
    return subscription


def _require_payment(core: Core, behavior: str, method: Json | None, *, is_authenticated: bool) -> None:
    """Raise Refusal if the first invoice cannot be collected and that rules the subscription out."""
    if method is None and behavior != "default_incomplete":
        message = (
            "This customer has no attached payment source or default payment method. Please consider adding a default "
            "payment method. For more information, visit https://stripe.com/docs/billing/subscriptions/"
            "payment-methods-setting#payment-method-priority."
        )
        raise invalid(message, code="resource_missing")
    if behavior == "error_if_incomplete":
        outcome = charge(core, method, is_authenticated=is_authenticated)
        if outcome.refusal:
            raise outcome.refusal


def _recurring_price(core: Core, item: Json, position: int) -> Json:
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


def _trial_end(params: Json, now: int) -> int | None:
    if params.get("trial_period_days"):
        return now + int(params["trial_period_days"]) * DAY
    trial_end = params.get("trial_end")
    if trial_end in {None, "now"}:
        return None
    if int(str(trial_end)) <= now:
        raise invalid("Invalid timestamp: must be an integer Unix timestamp in the future", "trial_end")
    return int(str(trial_end))


def _add(core: Core, customer: Json, params: Json, currency: str, trial_end: int | None) -> Json:
    now, tax = core.now(customer["id"]), params.get("automatic_tax", {}).get("enabled", False)
    ending = params.get("trial_settings", {}).get("end_behavior", {})
    identifier = core.store.new_id("subscription")
    cancels = params.get("cancel_at") or params.get("cancel_at_period_end")
    return core.store.add(
        "subscription",
        {
            **blank("application application_fee_percent billing_cycle_anchor_config billing_thresholds"),
            **blank("customer_account days_until_due default_source ended_at latest_invoice managed_payments"),
            **blank("next_pending_invoice_item_invoice on_behalf_of pause_collection pending_invoice_item_interval"),
            **blank("pending_setup_intent pending_update presentment_details schedule status_details transfer_data"),
            "automatic_tax": {
                "disabled_reason": None,
                "enabled": tax,
                "liability": {"type": "self"} if tax else None,
            },
            "billing_cycle_anchor": trial_end or now,
            "billing_mode": {"flexible": {"proration_discounts": "included"}, "type": "flexible", "updated_at": None},
            "billing_schedules": [],
            "cancel_at": params.get("cancel_at"),
            "cancel_at_period_end": params.get("cancel_at_period_end", False),
            "canceled_at": now if cancels else None,
            "cancellation_details": {
                **blank("comment feedback feedback_option"),
                "reason": "cancellation_requested" if cancels else None,
            },
            "collection_method": "charge_automatically",
            "created": now,
            "currency": currency,
            "customer": customer["id"],
            "default_payment_method": params.get("default_payment_method"),
            "default_tax_rates": [],
            "description": params.get("description"),
            "discounts": [],
            "invoice_settings": {
                **blank("account_tax_ids custom_fields description footer"),
                "issuer": {"type": "self"},
            },
            "items": {
                "object": "list",
                "data": [],
                "has_more": False,
                "url": f"/v1/subscription_items?subscription={identifier}",
            },
            "livemode": False,
            "metadata": params.get("metadata", {}),
            "payment_settings": {
                "payment_method_options": None,
                "payment_method_types": None,
                "save_default_payment_method": "off",
            },
            "start_date": now,
            "status": "trialing" if trial_end else "incomplete",
            "test_clock": customer["test_clock"],
            "trial_end": trial_end,
            "trial_settings": {
                "end_behavior": {
                    "billing_cycle_anchor": None,
                    "missing_payment_method": ending.get("missing_payment_method", "create_invoice"),
                },
            },
            "trial_start": now if trial_end else None,
        },
        identifier=identifier,
    )


def _add_item(core: Core, subscription: Json, price: Json, given: Json, start: int, end: int) -> Json:
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
        "plan": _plan(price),
        "price": price,
        "quantity": given.get("quantity", 1),
        "subscription": subscription["id"],
        "tax_rates": [],
    }
    subscription["items"]["data"].append(item)
    return item


def _plan(price: Json) -> Json:
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


def _announce_trial_end_if_near(core: Core, subscription: Json) -> None:
    if subscription["trial_end"] - TRIAL_NOTICE <= core.now(subscription["customer"]):
        announce_trial_end(core, subscription)


TRIAL_NOTICE = 3 * DAY


def announce_trial_end(core: Core, subscription: Json) -> None:
    """Announce that a trial ends in three days or less, once."""
    core.store.hidden[subscription["id"]]["trial_end_announced"] = subscription["trial_end"]
    core.announce("customer.subscription.trial_will_end", subscription)


def _bill_first_period(
    core: Core, subscription: Json, behavior: str, method: Json | None, *, is_authenticated: bool
) -> None:
    is_trial = subscription["status"] == "trialing"
    lines = [_line(core, subscription, item, is_free=is_trial) for item in subscription["items"]["data"]]
    customer = core.store.objects["customer"][subscription["customer"]]
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_create", subscription)
    finalize(core, invoice)
    if is_trial:
        return
    if invoice["status"] == "paid":
        activate(core, subscription)
    elif behavior != "default_incomplete":
        settle(core, invoice, method, is_authenticated=is_authenticated)


def _line(core: Core, subscription: Json, item: Json, *, is_free: bool = False) -> Line:
    """Return the line of an item for its current period."""
    price, quantity = item["price"], item["quantity"]
    unit = amount_in(core, price, subscription["currency"])
    product = core.store.objects["product"][price["product"]]["name"]
    amount = 0 if is_free else unit * quantity
    text = f"Free trial for {quantity} x {product}" if is_free else f"{quantity} x {product}"
    start, end = item["current_period_start"], item["current_period_end"]
    return Line(amount, text, start, end, price, unit, quantity, item["id"])


def subscription_of(core: Core, invoice: Json) -> Json | None:
    """Return the subscription of an invoice."""
    details = (invoice["parent"] or {}).get("subscription_details")
    return core.store.objects["subscription"].get(details["subscription"]) if details else None


def activate(core: Core, subscription: Json) -> None:
    """Let a subscription be active, since it is paid."""
    if subscription["status"] != "active":
        subscription["status"] = "active"
        core.store.changes += 1
        core.announce("customer.subscription.updated", subscription)


def settle(core: Core, invoice: Json, payment_method: Json | None = None, *, is_authenticated: bool = False) -> Charge:
    """Collect an open invoice, and let its subscription be active or past due."""
    subscription = subscription_of(core, invoice)
    outcome = collect(core, invoice, subscription, payment_method, is_authenticated=is_authenticated)
    if subscription is None or subscription["status"] in ENDED:
        return outcome
    if outcome.is_paid:
        if invoice["id"] == subscription["latest_invoice"] and subscription["status"] not in {"trialing", "paused"}:
            activate(core, subscription)
    elif subscription["status"] == "active":
        subscription["status"] = "past_due"
        core.announce("customer.subscription.updated", subscription)
    return outcome


def collect_automatically(core: Core, invoice: Json) -> None:
    """Collect an invoice when it is due; after the last failed attempt do what is set for that."""
    settle(core, invoice)
    subscription = subscription_of(core, invoice)
    given_up = invoice["status"] == "open" and invoice["next_payment_attempt"] is None
    if not given_up or subscription is None or subscription["status"] != "past_due":
        return
    if core.settings.after_retries == "cancel":
        end_subscription(core, subscription, "payment_failed")
    elif core.settings.after_retries == "unpaid":
        subscription["status"] = "unpaid"
        core.announce("customer.subscription.updated", subscription)


def end_subscription(core: Core, subscription: Json, reason: str = "cancellation_requested") -> None:
    """Cancel a subscription now. Raise Refusal if it has ended already."""
    if subscription["status"] in ENDED:
        raise invalid(f"No such subscription: '{subscription['id']}'", "id", "resource_missing", 404)
    now = core.now(subscription["customer"])
    subscription["canceled_at"] = subscription["canceled_at"] or now
    subscription |= {"ended_at": now, "status": "canceled"}
    subscription["cancellation_details"]["reason"] = reason
    for invoice in core.store.all("invoice"):
        if invoice["status"] in {"draft", "open"} and subscription_of(core, invoice) is subscription:
            invoice |= {"auto_advance": False, "automatically_finalizes_at": None, "next_payment_attempt": None}
    core.store.changes += 1
    core.announce("customer.subscription.deleted", subscription)


def expire_incomplete(core: Core, subscription: Json) -> None:
    """Give up a subscription whose first invoice was not paid in time."""
    subscription["status"] = "incomplete_expired"
    subscription["ended_at"] = core.now(subscription["customer"])
    invoice = core.store.find("invoice", subscription["latest_invoice"])
    if invoice and invoice["status"] == "open":
        close(core, invoice, "void")
    core.announce("customer.subscription.updated", subscription)


def renew(core: Core, subscription: Json) -> None:
    """Begin the next period, with a draft of its invoice; the end of a trial does the same."""
    customer = core.store.objects["customer"][subscription["customer"]]
    if subscription["status"] == "trialing" and not _survives_trial(core, subscription, customer):
        return
    for item in subscription["items"]["data"]:
        start = item["current_period_end"]
        end = end_of_period(subscription["billing_cycle_anchor"], item["price"]["recurring"], start)
        item |= {"billed_until": start, "current_period_end": end, "current_period_start": start}
    if subscription["status"] == "trialing":
        subscription["status"] = "active"
    lines = [_line(core, subscription, item) for item in subscription["items"]["data"]]
    lines += _pending_lines(core, subscription)
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_cycle", subscription)
    _bill_pending(core, subscription, invoice)
    if subscription["status"] == "unpaid":
        invoice["auto_advance"] = False  # what is unpaid is not collected: drafts pile up
    else:
        invoice["automatically_finalizes_at"] = core.now(customer["id"]) + core.settings.invoice_draft_seconds
    core.store.changes += 1
    core.announce("customer.subscription.updated", subscription)


def _survives_trial(core: Core, subscription: Json, customer: Json) -> bool:
    """True if a trial that ends becomes a paid period; without a card it may be cancelled or paused instead."""
    behavior = subscription["trial_settings"]["end_behavior"]["missing_payment_method"]
    if behavior == "create_invoice" or payment_method_of(core, customer, subscription):
        return True
    if behavior == "cancel":
        end_subscription(core, subscription)
        return False
    now = core.now(customer["id"])
    subscription["status"] = "paused"
    subscription["status_details"] = {
        "paused": {
            "subscription": {"type": "trial_end_without_payment_method"},
            "transitioned_at": now,
            "type": "subscription",
        },
    }
    core.announce("customer.subscription.paused", subscription)
    core.announce("customer.subscription.updated", subscription)
    return False


def resume(core: Core, subscription: Json) -> None:
    """Resume a paused subscription with a new period that begins now."""
    if subscription["status"] != "paused":
        raise invalid("Only subscriptions with a status of `paused` can be resumed.")
    subscription |= {"status": "active", "status_details": None}
    _restart(core, subscription)
    core.announce("customer.subscription.resumed", subscription)
    _bill_now(core, subscription, [_line(core, subscription, item) for item in subscription["items"]["data"]])


def _pending_lines(core: Core, subscription: Json) -> list[Line]:
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


def _bill_pending(core: Core, subscription: Json, invoice: Json) -> None:
    for each in _pending(core, subscription):
        each["invoice"] = invoice["id"]


def _bill_now(core: Core, subscription: Json, lines: list[Line]) -> Charge | None:
    """Invoice some lines at once, and collect them; None if nothing was due."""
    customer = core.store.objects["customer"][subscription["customer"]]
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_update", subscription)
    finalize(core, invoice)
    return settle(core, invoice) if invoice["status"] == "open" else None


def change_items(core: Core, subscription: Json, changes: list[Json], proration: str) -> None:
    """Change, add and delete items.

    What is left of the period is credited at the old price and charged at the new one; another interval begins a new
    period. `proration` is `always_invoice`, `create_prorations` (billed with the next invoice) or `none`.
    """
    now, items = core.now(subscription["customer"]), subscription["items"]["data"]
    before = {item["id"]: dict(item) for item in items}
    for position, change in enumerate(changes):
        _change_item(core, subscription, change, position)
    old = next(iter(before.values()))["price"]["recurring"]
    intervals = {_interval(item["price"]["recurring"]) for item in items}
    if len(intervals) != 1:
        items[:] = list(before.values())
        raise invalid("All prices on a subscription must have the same recurring interval.", "items")
    if subscription["status"] == "trialing":
        return
    restarts = _interval(old) not in intervals
    unused, rest = _prorations(core, subscription, before, now)
    if restarts:
        _restart(core, subscription)
        full = [_line(core, subscription, item) for item in items]
        _bill_now(core, subscription, (unused if proration != "none" else []) + full)
    elif proration == "always_invoice" and (unused or rest):
        _bill_now(core, subscription, unused + rest)
    elif proration == "create_prorations":
        for line in unused + rest:
            make_invoice_item(core, subscription, line)


def _interval(recurring: Json) -> tuple[str, int]:
    return recurring["interval"], recurring["interval_count"]


def _restart(core: Core, subscription: Json) -> None:
    """Begin a period now."""
    now = core.now(subscription["customer"])
    subscription["billing_cycle_anchor"] = now
    for item in subscription["items"]["data"]:
        end = end_of_period(now, item["price"]["recurring"], now)
        item |= {"billed_until": now, "current_period_end": end, "current_period_start": now}


def _change_item(core: Core, subscription: Json, change: Json, position: int) -> None:
    items = subscription["items"]["data"]
    found = next((each for each in items if each["id"] == change.get("id")), None)
    if "id" in change and found is None:
        raise invalid(f"No such subscription item: '{change['id']}'", f"items[{position}][id]", "resource_missing")
    if change.get("deleted") and found:
        items.remove(found)
        return
    price = _recurring_price(core, change, position) if "price" in change else None
    if price:
        amount_in(core, price, subscription["currency"])
    if found is None:
        if price is None:
            raise missing_parameter(f"items[{position}][price]")
        start, end = core.now(subscription["customer"]), items[0]["current_period_end"]
        _add_item(core, subscription, price, change, start, end)
        return
    if price:
        found |= {"plan": _plan(price), "price": price}
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
            unused.append(_rest(core, subscription, old, now, sign=-1))
        if new:
            rest.append(_rest(core, subscription, new, now, sign=1))
    return unused, rest


def _rest(core: Core, subscription: Json, item: Json, now: int, sign: int) -> Line:
    whole = _line(core, subscription, item)
    share = (whole.end - now) / (whole.end - whole.start)
    text = f"{'Unused' if sign < 0 else 'Remaining'} time on {whole.description}"
    amount = sign * round(whole.amount * share)
    unit = sign * whole.unit_amount
    return Line(amount, text, now, whole.end, whole.price, unit, whole.quantity, item["id"], proration=True)


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


def schedule_cancellation(core: Core, subscription: Json, moment: int | None, details: Json | None = None) -> None:
    """Let a subscription end at a moment, as the portal does: the flag `cancel_at_period_end` stays as it is."""
    now = core.now(subscription["customer"])
    subscription |= {"cancel_at": moment, "canceled_at": now if moment else None}
    if moment is None:
        subscription["cancel_at_period_end"] = False
    subscription["cancellation_details"] = {
        **blank("comment feedback feedback_option"),
        **(details or {}),
        "reason": "cancellation_requested" if moment else None,
    }
    core.store.changes += 1
    core.announce("customer.subscription.updated", subscription)


def period_end(subscription: Json) -> int:
    """Return the end of the current period."""
    return int(min(item["current_period_end"] for item in subscription["items"]["data"]))
