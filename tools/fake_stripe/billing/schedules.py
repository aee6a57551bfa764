"""Subscription schedules: a price that changes at the end of the period."""

from tools.fake_stripe.billing.periods import end_of_period
from tools.fake_stripe.billing.plan_changes import change_items
from tools.fake_stripe.billing.subscription_items import period_end
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, blank


def schedule_price(core: Core, subscription: Json, price: Json) -> Json:
    """Let a subscription have another price from the next period on."""
    if subscription["schedule"]:
        release(core, core.store.get("subscription_schedule", subscription["schedule"]))
    item = subscription["items"]["data"][0]
    begin, change = item["current_period_start"], period_end(subscription)
    tax = {"disabled_reason": None, "enabled": False, "liability": None}
    made = core.store.add(
        "subscription_schedule",
        {
            **blank("application canceled_at completed_at customer_account released_at released_subscription"),
            "billing_mode": dict(subscription["billing_mode"]),
            "created": core.now(subscription["customer"]),
            "current_phase": {"end_date": change, "start_date": begin},
            "customer": subscription["customer"],
            "default_settings": {
                **blank("application_fee_percent billing_thresholds default_payment_method description"),
                **blank("on_behalf_of transfer_data"),
                "automatic_tax": tax,
                "billing_cycle_anchor": "automatic",
                "collection_method": "charge_automatically",
                "invoice_settings": {
                    **blank("account_tax_ids custom_fields days_until_due description footer"),
                    "issuer": {"type": "self"},
                },
            },
            "end_behavior": "release",
            "livemode": False,
            "metadata": {},
            "pause_schedules": [],
            "phases": [
                _phase(subscription, item["price"], begin, change),
                _phase(subscription, price, change, end_of_period(change, price["recurring"], change)),
            ],
            "status": "active",
            "subscription": subscription["id"],
            "test_clock": subscription["test_clock"],
        },
    )
    subscription["schedule"] = made["id"]
    core.announce("subscription_schedule.created", made)
    core.announce("customer.subscription.updated", subscription)
    return made


def _phase(subscription: Json, price: Json, start: int, end: int) -> Json:
    item = subscription["items"]["data"][0]
    return {
        **blank("application_fee_percent automatic_tax billing_cycle_anchor billing_thresholds collection_method"),
        **blank("default_payment_method description invoice_settings on_behalf_of transfer_data trial trial_end"),
        "add_invoice_items": [],
        "currency": subscription["currency"],
        "default_tax_rates": [],
        "discounts": [],
        "end_date": end,
        "items": [
            {
                "billing_thresholds": None,
                "discounts": [],
                "metadata": {},
                "plan": price["id"],
                "price": price["id"],
                "quantity": item["quantity"],
                "tax_rates": [],
            },
        ],
        "metadata": {},
        "proration_behavior": "none",
        "start_date": start,
    }


def begin_phase(core: Core, schedule: Json) -> None:
    """Change the price when the last phase begins, and let the subscription go on by itself."""
    subscription = core.store.get("subscription", schedule["subscription"])
    item, phase = subscription["items"]["data"][0], schedule["phases"][-1]
    change_items(core, subscription, [{"id": item["id"], "price": phase["items"][0]["price"]}], "none")
    release(core, schedule)


def release(core: Core, schedule: Json) -> None:
    """End a schedule; its subscription stays as it is."""
    if schedule["status"] not in {"active", "not_started"}:
        message = "You can only release a subscription schedule that is active or not started: this one is "
        raise invalid(f"{message}{schedule['status']}.")
    subscription = core.store.get("subscription", schedule["subscription"])
    subscription["schedule"] = None
    schedule |= {
        "current_phase": None,
        "released_at": core.now(schedule["customer"]),
        "released_subscription": subscription["id"],
        "status": "released",
        "subscription": None,
    }
    core.store.changes += 1
    core.announce("subscription_schedule.released", schedule)
