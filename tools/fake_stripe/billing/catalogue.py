"""Products and prices."""

from typing import Any

from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, blank


def make_product(core: Core, params: Json) -> Json:
    """Add a product."""
    identifier = params.get("id")
    if identifier and identifier in core.store.objects["product"]:
        raise invalid(f"Product already exists: {identifier}", "id", "resource_already_exists")
    made = core.store.add(
        "product",
        {
            **blank("default_price description package_dimensions shippable statement_descriptor tax_code tax_details"),
            **blank("unit_label url"),
            "active": params.get("active", True),
            "created": core.now(),
            "description": params.get("description"),
            "images": [],
            "livemode": False,
            "marketing_features": [],
            "metadata": params.get("metadata", {}),
            "name": params["name"],
            "tax_code": params.get("tax_code"),
            "type": "service",
            "unit_label": params.get("unit_label"),
            "updated": core.now(),
        },
        identifier=identifier,
    )
    core.announce("product.created", made)
    return made


def make_price(core: Core, product: Json, params: Json) -> Json:
    """Add a price."""
    recurring = params.get("recurring")
    options = {params["currency"].lower(): _option(params)}
    options |= {currency.lower(): _option(given) for currency, given in params.get("currency_options", {}).items()}
    made = core.store.add(
        "price",
        {
            **blank("custom_unit_amount tiers_mode transform_quantity"),
            "active": params.get("active", True),
            "billing_scheme": "per_unit",
            "created": core.now(),
            "currency": params["currency"].lower(),
            "livemode": False,
            "lookup_key": None,
            "metadata": params.get("metadata", {}),
            "nickname": params.get("nickname"),
            "product": product["id"],
            "recurring": recurring
            and {"interval_count": 1, "meter": None, "trial_period_days": None, "usage_type": "licensed", **recurring},
            "tax_behavior": params.get("tax_behavior", "unspecified"),
            "type": "recurring" if recurring else "one_time",
            "unit_amount": params["unit_amount"],
            "unit_amount_decimal": str(params["unit_amount"]),
        },
        hidden={"currency_options": options},
    )
    set_lookup_key(core, made, params)
    core.announce("price.created", made)
    return made


def _option(given: Json) -> Json:
    return {
        "custom_unit_amount": None,
        "tax_behavior": given.get("tax_behavior", "unspecified"),
        "unit_amount": given["unit_amount"],
        "unit_amount_decimal": str(given["unit_amount"]),
    }


def set_lookup_key(core: Core, price: Json, params: Json) -> None:
    """Give a price its lookup key. Raise Refusal if another price has it and it is not to be transferred."""
    key = params.get("lookup_key")
    if "lookup_key" not in params or key == price["lookup_key"]:
        return
    for other in core.store.all("price") if key else ():
        if other["lookup_key"] == key and other["active"]:
            if not params.get("transfer_lookup_key"):
                message = f"A price (`{other['id']}`) already uses that lookup key."
                raise invalid(message, "lookup_key", "resource_already_exists")
            other["lookup_key"] = None
            core.announce("price.updated", other)
    price["lookup_key"] = key


def amount_in(core: Core, price: Json, currency: str) -> int:
    """Return the unit amount of a price in a currency. Raise Refusal if it has none."""
    options: dict[str, Any] = core.store.hidden[price["id"]]["currency_options"]
    if currency not in options:
        message = f"The price specified only supports `{price['currency']}`. This doesn't match the expected currency: "
        raise invalid(f"{message}`{currency}`.", "currency")
    return int(options[currency]["unit_amount"])
