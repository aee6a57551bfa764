"""Prices of plans, as Stripe has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rules.billing.plans import PLANS

EXPONENTS: Mapping[str, int] = {
    **dict.fromkeys(("AUD", "CAD", "CHF", "DKK", "EUR", "GBP", "NOK", "PLN", "SEK", "USD"), 2),
    "JPY": 0,
}
"""Currencies that we sell in, with the number of decimal places of their amounts at Stripe."""
INTERVALS = ("month", "year")


def format_amount(amount: int, currency: str) -> str | None:
    """Return an amount of the smallest unit as people read it, such as 1,990.00 EUR.

    None for a currency that we do not sell in: the number of its decimal places is not known here.
    """
    places = EXPONENTS.get(currency)
    if places is None:
        return None
    whole, part = divmod(abs(amount), 10**places)
    decimals = f".{part:0{places}}" if places else ""
    return f"{'-' if amount < 0 else ''}{whole:,}{decimals} {currency}"


@dataclass(frozen=True, slots=True)
class Price:
    """A price of a plan in one currency, in the smallest unit of that currency."""

    id: str
    plan: str
    interval: str
    currency: str
    unit_amount: int
    tax_behavior: str
    on_sale: bool
    """False for a price that a later one replaced; subscriptions keep it."""
    is_default: bool
    """True for the currency that is sold where none is requested."""


def prices_of(answer: Mapping[str, Any]) -> Iterator[Price]:
    """Yield a price of Stripe in each of its currencies that we sell in; none if it is not a price of a plan.

    The product says which plan it is, and the lookup key, such as `team_month`, which price is on sale.
    """
    recurring, product = answer["recurring"] or {}, answer["product"]
    plan = (product.get("metadata") or {}).get("plan") if isinstance(product, Mapping) else None
    interval = recurring.get("interval")
    if plan not in PLANS or interval not in INTERVALS or recurring.get("interval_count") != 1:
        return
    on_sale = answer["active"] and answer["lookup_key"] == f"{plan}_{interval}" and PLANS[plan].purchasable
    own = {answer["currency"]: answer}
    for currency, option in {**(answer.get("currency_options") or {}), **own}.items():
        if currency.upper() in EXPONENTS and option["unit_amount"] is not None:
            yield Price(
                answer["id"],
                plan,
                interval,
                currency.upper(),
                option["unit_amount"],
                option["tax_behavior"] or "unspecified",
                on_sale=on_sale,
                is_default=currency == answer["currency"],
            )
