"""What a person can change of a subscription in the billing portal."""

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.plan_changes import change_items
from tools.fake_stripe.billing.schedules import schedule_price
from tools.fake_stripe.billing.subscriptions import end_trial
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json

LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}


def offered_prices(core: Core, feature: Json, current: Json) -> list[tuple[str, Json]]:
    """Return the prices that a configuration offers instead of the current one, with the names of their products."""
    found = []
    for each in feature["products"]:
        product = core.store.objects["product"][each["product"]]
        for identifier in each["prices"]:
            price = core.store.objects["price"][identifier]
            if price["active"] and identifier != current["id"]:
                found.append((product["name"], price))
    return found


def change_price(core: Core, subscription: Json, feature: Json, price_id: str) -> None:
    """Change to another price: now, or at the period's end if a condition of the configuration says so.

    A trial ends with the change unless the configuration lets it continue. Raise Refusal if the price is not offered.
    """
    item = subscription["items"]["data"][0]
    price = next((price for _, price in offered_prices(core, feature, item["price"]) if price["id"] == price_id), None)
    if price is None:
        raise invalid("This price is not offered.")
    conditions = {each["type"] for each in feature["schedule_at_period_end"]["conditions"]}
    currency = subscription["currency"]
    cheaper = amount_in(core, price, currency) < amount_in(core, item["price"], currency)
    shorter = _length(price) < _length(item["price"])
    if ("shortening_interval" in conditions and shorter) or ("decreasing_item_amount" in conditions and cheaper):
        schedule_price(core, subscription, price)
        return
    change_items(core, subscription, [{"id": item["id"], "price": price["id"]}], feature["proration_behavior"])
    if subscription["status"] == "trialing" and feature["trial_update_behavior"] == "end_trial":
        end_trial(core, subscription)
    core.announce("customer.subscription.updated", subscription)


def _length(price: Json) -> int:
    recurring = price["recurring"]
    return int(LENGTHS[recurring["interval"]] * recurring["interval_count"])
