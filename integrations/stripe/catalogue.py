"""Setting up what is sold at Stripe: products, prices, and the configuration of the customer portal.

What is there as wanted stays as it is, so running it again changes nothing. A price that is to change is replaced by
another one, which takes over its lookup key: subscriptions keep the price that they have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from integrations.stripe.client import Stripe
from rules.billing.offers import Offer

_MARK = {"change_freeze": "portal"}
"""The metadata of our configuration of the portal."""


def set_up(stripe: Stripe, offers: Sequence[Offer]) -> tuple[list[str], str]:
    """Make what is missing or different; return a line for each change, and the id of the portal's configuration."""
    changes: list[str] = []
    sold: list[dict[str, Any]] = []
    with stripe.call():
        products = {
            plan: each
            for each in stripe.api.products.list({"active": True, "limit": 100}).auto_paging_iter()
            if (plan := each.metadata.to_dict().get("plan"))
        }
        for offer in offers:
            product = products.get(offer.plan)
            if product is None:
                product = stripe.api.products.create({"name": offer.name, "metadata": {"plan": offer.plan}})
                changes.append(f"made the product {product.id} of the plan {offer.plan}")
            elif product.name != offer.name:
                stripe.api.products.update(product.id, {"name": offer.name})
                changes.append(f"renamed the product {product.id} to {offer.name}")
            prices = [
                _set_price(stripe, offer, product.id, interval, amounts, changes)
                for interval, amounts in offer.amounts.items()
            ]
            sold.append({"product": product.id, "prices": prices})
        return changes, _set_portal(stripe, sold, changes)


def _set_price(
    stripe: Stripe, offer: Offer, product: str, interval: str, amounts: Mapping[str, int], changes: list[str]
) -> str:
    """Return the id of the price on sale, after replacing one that differs."""
    key = f"{offer.plan}_{interval}"
    listed = stripe.api.prices.list({"lookup_keys": [key], "active": True, "expand": ["data.currency_options"]}).data
    for each in listed:
        found = each.to_dict()
        options = {name: option["unit_amount"] for name, option in (found.get("currency_options") or {}).items()}
        same = (found["currency"], {**options, found["currency"]: found["unit_amount"]}, found["product"])
        if same == (next(iter(amounts)), dict(amounts), product) and found["tax_behavior"] == offer.tax_behavior:
            return str(found["id"])
    (currency, amount), *others = amounts.items()
    params: Any = {
        "product": product,
        "currency": currency,
        "unit_amount": amount,
        "tax_behavior": offer.tax_behavior,
        "recurring": {"interval": interval},
        "lookup_key": key,
        "transfer_lookup_key": True,
    }
    if others:
        params["currency_options"] = {
            name: {"unit_amount": value, "tax_behavior": offer.tax_behavior} for name, value in others
        }
    made = stripe.api.prices.create(params)
    changes.append(f"made the price {made.id} ({key})")
    return made.id


def _set_portal(stripe: Stripe, sold: list[dict[str, Any]], changes: list[str]) -> str:
    """Return the id of our configuration. Upgrades are paid at once, downgrades begin with the next period."""
    features: Any = {
        "customer_update": {"enabled": True, "allowed_updates": ["address", "email", "name", "tax_id"]},
        "invoice_history": {"enabled": True},
        "payment_method_update": {"enabled": True},
        "subscription_cancel": {"enabled": True, "mode": "at_period_end"},
        "subscription_update": {
            "enabled": True,
            "default_allowed_updates": ["price"],
            "products": sold,
            "proration_behavior": "always_invoice",
            "schedule_at_period_end": {
                "conditions": [{"type": "decreasing_item_amount"}, {"type": "shortening_interval"}]
            },
        },
    }
    listed = stripe.api.billing_portal.configurations.list({"active": True, "limit": 100})
    ours = [each for each in listed.auto_paging_iter() if _is_ours(each.to_dict())]
    if ours:
        stripe.api.billing_portal.configurations.update(ours[0].id, {"features": features})
        return ours[0].id
    made = stripe.api.billing_portal.configurations.create({"features": features, "metadata": _MARK})
    changes.append(f"made the portal's configuration {made.id}")
    return made.id


def _is_ours(configuration: Mapping[str, Any]) -> bool:
    return (configuration["metadata"] or {}).items() >= _MARK.items()
