"""What is to be sold at Stripe: a product for each plan, and its prices, as an operator writes them in a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rules.billing.plans import PLANS
from rules.billing.prices import EXPONENTS, INTERVALS
from rules.errors import ServiceError

TAX_BEHAVIORS = ("exclusive", "inclusive", "unspecified")


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan for sale."""

    plan: str
    name: str
    tax_behavior: str
    amounts: Mapping[str, Mapping[str, int]]
    """Interval → currency in lower case → amount in its smallest unit; the first currency is the default."""


def read_offers(document: Mapping[str, Any]) -> list[Offer]:
    """Return the offers of a file: `plans.team.name`, `.taxBehavior` and `.month` or `.year`, with a row per currency.

    Raise `validation_failed` for the first error.
    """
    plans = document.get("plans")
    if not isinstance(plans, Mapping) or not plans or document.keys() != {"plans"}:
        raise _invalid("The file needs a table `plans`, and nothing else.")
    return [_offer(plan, values) for plan, values in plans.items()]


def _offer(plan: str, values: Any) -> Offer:
    if plan not in PLANS or not PLANS[plan].purchasable:
        raise _invalid(f"plans.{plan}: there is no such plan for sale.")
    if not isinstance(values, Mapping) or values.keys() - {"name", "taxBehavior", *INTERVALS}:
        raise _invalid(f"plans.{plan}: must have name, taxBehavior, {' and '.join(INTERVALS)} only.")
    amounts = {interval: values[interval] for interval in INTERVALS if interval in values}
    behavior = values.get("taxBehavior", "unspecified")
    if not amounts or behavior not in TAX_BEHAVIORS:
        raise _invalid(f"plans.{plan}: needs a price, and a taxBehavior of {', '.join(TAX_BEHAVIORS)}.")
    for interval, row in amounts.items():
        is_row = isinstance(row, Mapping) and bool(row)
        if not is_row or not all(name in EXPONENTS and _is_amount(amount) for name, amount in row.items()):
            raise _invalid(f"plans.{plan}.{interval}: must be whole amounts of {', '.join(EXPONENTS)}.")
    lowered = {interval: {name.lower(): amount for name, amount in row.items()} for interval, row in amounts.items()}
    return Offer(plan, str(values.get("name", PLANS[plan].name)), behavior, lowered)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _invalid(message: str) -> ServiceError:
    return ServiceError("validation_failed", message)
