"""Subscriptions: from the first invoice over renewals and failed payments to the end."""

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.invoicing import Line, close, collect, finalize, make_invoice
from tools.fake_stripe.billing.payment_methods import Charge, charge, payment_method_of
from tools.fake_stripe.billing.periods import DAY, end_of_period
from tools.fake_stripe.billing.subscription_items import (
    add_item,
    bill_pending,
    currency_of,
    interval_of,
    is_live,
    line_of,
    pending_lines,
    recurring_price,
    restart,
)
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, blank

BILLED = {"trialing", "active", "past_due", "unpaid"}
"""States in which periods go on."""
TRIAL_NOTICE = 3 * DAY


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
    prices = [recurring_price(core, item, position) for position, item in enumerate(params["items"])]
    if len({interval_of(each["recurring"]) for each in prices}) > 1:
        raise invalid("All prices on a subscription must have the same recurring interval.", "items")
    currency = currency_of(core, customer, prices, params.get("currency"))
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
        add_item(core, subscription, price, item, now, end)
    if params.get("cancel_at_period_end"):
        subscription["cancel_at"] = end
    customer["currency"] = currency
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
            **_empty(),
            "automatic_tax": {
                "disabled_reason": None,
                "enabled": tax,
                "liability": {"type": "self"} if tax else None,
            },
            "billing_cycle_anchor": trial_end or now,
            "cancel_at": params.get("cancel_at"),
            "cancel_at_period_end": params.get("cancel_at_period_end", False),
            "canceled_at": now if cancels else None,
            "cancellation_details": {
                **blank("comment feedback feedback_option"),
                "reason": "cancellation_requested" if cancels else None,
            },
            "created": now,
            "currency": currency,
            "customer": customer["id"],
            "default_payment_method": params.get("default_payment_method"),
            "description": params.get("description"),
            "items": {
                "object": "list",
                "data": [],
                "has_more": False,
                "url": f"/v1/subscription_items?subscription={identifier}",
            },
            "metadata": params.get("metadata", {}),
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


def _empty() -> Json:
    """Return the fields that are the same in every new subscription."""
    return {
        **blank("application application_fee_percent billing_cycle_anchor_config billing_thresholds"),
        **blank("customer_account days_until_due default_source ended_at latest_invoice managed_payments"),
        **blank("next_pending_invoice_item_invoice on_behalf_of pause_collection pending_invoice_item_interval"),
        **blank("pending_setup_intent pending_update presentment_details schedule status_details transfer_data"),
        "billing_mode": {"flexible": {"proration_discounts": "included"}, "type": "flexible", "updated_at": None},
        "billing_schedules": [],
        "collection_method": "charge_automatically",
        "default_tax_rates": [],
        "discounts": [],
        "invoice_settings": {
            **blank("account_tax_ids custom_fields description footer"),
            "issuer": {"type": "self"},
        },
        "livemode": False,
        "payment_settings": {
            "payment_method_options": None,
            "payment_method_types": None,
            "save_default_payment_method": "off",
        },
    }


def _announce_trial_end_if_near(core: Core, subscription: Json) -> None:
    if subscription["trial_end"] - TRIAL_NOTICE <= core.now(subscription["customer"]):
        announce_trial_end(core, subscription)


def announce_trial_end(core: Core, subscription: Json) -> None:
    """Announce that a trial ends in three days or less, once."""
    core.store.hidden[subscription["id"]]["trial_end_announced"] = subscription["trial_end"]
    core.announce("customer.subscription.trial_will_end", subscription)


def _bill_first_period(
    core: Core, subscription: Json, behavior: str, method: Json | None, *, is_authenticated: bool
) -> None:
    is_trial = subscription["status"] == "trialing"
    lines = [line_of(core, subscription, item, is_free=is_trial) for item in subscription["items"]["data"]]
    customer = core.store.objects["customer"][subscription["customer"]]
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_create", subscription)
    finalize(core, invoice)
    if is_trial:
        return
    if invoice["status"] == "paid":
        activate(core, subscription)
    elif behavior != "default_incomplete":
        settle(core, invoice, method, is_authenticated=is_authenticated)


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
    if subscription is None or not is_live(subscription):
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
    if not is_live(subscription):
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
    lines = [line_of(core, subscription, item) for item in subscription["items"]["data"]]
    lines += pending_lines(core, subscription)
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_cycle", subscription)
    bill_pending(core, subscription, invoice)
    if subscription["status"] == "unpaid":
        invoice["auto_advance"] = False  # what is unpaid is not collected: drafts pile up
    else:
        invoice["automatically_finalizes_at"] = core.now(customer["id"]) + core.settings.invoice_draft_seconds
    core.store.changes += 1
    core.announce("customer.subscription.updated", subscription)


def end_trial(core: Core, subscription: Json) -> None:
    """End a trial now: the first paid period begins, and is collected at once."""
    subscription |= {"status": "active", "trial_end": core.now(subscription["customer"])}
    restart(core, subscription)
    bill_now(core, subscription, [line_of(core, subscription, item) for item in subscription["items"]["data"]])


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
    restart(core, subscription)
    core.announce("customer.subscription.resumed", subscription)
    bill_now(core, subscription, [line_of(core, subscription, item) for item in subscription["items"]["data"]])


def bill_now(core: Core, subscription: Json, lines: list[Line]) -> None:
    """Invoice some lines and collect them at once; what is unpaid gets a draft only."""
    customer = core.store.objects["customer"][subscription["customer"]]
    invoice = make_invoice(core, customer, subscription["currency"], lines, "subscription_update", subscription)
    if subscription["status"] == "unpaid":
        invoice["auto_advance"] = False
        return
    finalize(core, invoice)
    if invoice["status"] == "open":
        settle(core, invoice)


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
