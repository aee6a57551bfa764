"""What the plan and billing page makes of the answers of the operations."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from rules.billing.plans import COUNTED
from rules.billing.subscriptions import PAID

Summary = Mapping[str, Any]
"""The answer of `GET /v1/billing`."""
FEATURES = {"audit_export": "Export of the audit log", "pr_exceptions": "Exceptions for pull requests"}
"""What entitlements are called on pages."""
_LABELS = {each.property: each.noun.capitalize() for each in COUNTED.values()}
_TAXES = {"exclusive": "plus tax", "inclusive": "tax included"}
_DAY = 86_400


def state_of(billing: Summary, now: datetime) -> str:
    """Return the state to describe: that of the subscription, or else the source of the plan."""
    source, subscription = billing["source"], billing["subscription"]
    if source == "manual":
        return "manual"
    if subscription is None:
        without = {"trial": "trial", "none": "ended" if billing["invoices"] else "none"}
        return without.get(source, "unclear")
    state = str(subscription["state"])
    grace_ends_at = subscription["graceEndsAt"]
    if state == "past_due" and (grace_ends_at is None or datetime.fromisoformat(grace_ends_at) <= now):
        return "unpaid"
    if state in PAID and grace_ends_at is None:
        return "cancelling" if subscription["cancelAt"] else state
    return state if state in {"past_due", "unpaid", "paused", "incomplete"} else "unclear"


def actions_of(billing: Summary, plans: Sequence[Mapping[str, Any]], may: Callable[[str], bool]) -> set[str]:
    """Return what can be done now; what the role (`may`) or the state would refuse is left out."""
    allowed = {name for name in ("open_checkout", "open_billing_portal", "start_trial") if may(name)}
    if billing["subscription"] is not None:
        allowed -= {"open_checkout", "start_trial"}
    elif billing["source"] == "manual":
        return set()
    if billing["syncedAt"] is None:
        allowed.discard("open_billing_portal")  # nothing was bought yet
    top = max(plans, key=lambda plan: int(plan["rank"]))["id"]
    if billing["source"] != "none" or billing["plan"] == top or billing["trial"]["state"] != "available":
        allowed.discard("start_trial")
    return allowed


def has_arrived(billing: Summary) -> bool:
    """True if there is a subscription whose first payment was made, or is due later."""
    return billing["subscription"] is not None and billing["subscription"]["state"] != "incomplete"


def digest(billing: Summary) -> str:
    """Return a short text that differs if anything does that people can change at Stripe."""
    shown = [billing[name] for name in ("plan", "source", "until", "subscription", "invoices")]
    return hashlib.sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def choose_currency(wanted: str, billing: Summary, currencies: Sequence[str]) -> str:
    """Return the currency that prices are shown in: the wanted one, that of the last invoice, or the first one."""
    known = [wanted, *(invoice["currency"] for invoice in billing["invoices"]), *currencies]
    return next((currency for currency in known if currency in currencies), "")


def offers_of(prices: Iterable[Mapping[str, Any]], currency: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return the prices in one currency by plan, the monthly one first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for price in sorted(prices, key=lambda price: str(price["interval"])):
        if price["currency"] == currency:
            found.setdefault(price["plan"], []).append(price)
    return found


def describe_tax(prices: Iterable[Mapping[str, Any]]) -> str | None:
    """Return whether tax is included; None if the prices differ in that, or Stripe does not say."""
    behaviors = {price["taxBehavior"] for price in prices}
    return _TAXES.get(behaviors.pop()) if len(behaviors) == 1 else None


def usage_of(entitlements: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how much is used of each limit; `allowed` is None if it is unlimited."""
    limits = entitlements["limits"]
    return [
        {"name": name, "label": _LABELS.get(name, name), "used": used, "allowed": limits.get(name)}
        for name, used in entitlements["usage"].items()
    ]


def days_left(until: str, now: datetime) -> str:
    """Return how many days are left, the last one included, such as `9 days`."""
    seconds = (datetime.fromisoformat(until) - now).total_seconds()
    days = max(0, -int(-seconds // _DAY))
    return "1 day" if days == 1 else f"{days} days"
