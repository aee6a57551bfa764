"""Products and prices."""

from tools.fake_stripe.core import Core
from tools.fake_stripe.parameters import METADATA
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json

TAX_BEHAVIOR = frozenset({"exclusive", "inclusive", "unspecified"})
INTERVAL = frozenset({"month", "year"})


def create_product(call: Call) -> Json:
    """Add a product."""
    made = call.store.add("product", {"active": True, "metadata": {}, **call.params})
    call.core.announce("product.created", made)
    return made


def update_product(call: Call) -> Json:
    """Rename a product."""
    product = call.named("product")
    product |= call.params
    call.core.announce("product.updated", product)
    return product


def list_products(call: Call) -> Json:
    """List products."""
    return call.page(call.store.all("product"), "active")


def create_price(call: Call) -> Json:
    """Add a price of a product."""
    core, params = call.core, call.params
    currency = params["currency"].lower()
    options = {currency: params, **params.get("currency_options", {})}
    fields = {
        "active": True,
        "currency": currency,
        "lookup_key": None,
        "product": call.store.get("product", params["product"], "product")["id"],
        "recurring": {"interval_count": 1, **params["recurring"]},
        "tax_behavior": params.get("tax_behavior", "unspecified"),
        "type": "recurring",
        "unit_amount": params["unit_amount"],
    }
    shown = {
        name: {"unit_amount": each["unit_amount"], "tax_behavior": each.get("tax_behavior", "unspecified")}
        for name, each in options.items()
    }
    made = core.store.add("price", fields, hidden={"currency_options": shown})
    _set_lookup_key(core, made, params)
    core.announce("price.created", made)
    return made


def _set_lookup_key(core: Core, price: Json, params: Json) -> None:
    """Give a price its lookup key. Raise Refusal if another price has it and it is not to be transferred."""
    key = params.get("lookup_key")
    for other in core.store.all("price") if key else ():
        if other["lookup_key"] == key:
            if not params.get("transfer_lookup_key"):
                core.store.delete(price)
                message = f"A price (`{other['id']}`) already uses that lookup key."
                raise invalid(message, "lookup_key", "resource_already_exists")
            other["lookup_key"] = None
            core.announce("price.updated", other)
    price["lookup_key"] = key


def list_prices(call: Call) -> Json:
    """List prices."""
    keys = call.params.get("lookup_keys")
    found = [each for each in call.store.all("price") if keys is None or each["lookup_key"] in keys]
    return call.page(found, "active", "type")


def amount_in(core: Core, price: Json, currency: str) -> int:
    """Return the unit amount of a price in a currency. Raise Refusal if it has none."""
    options = core.store.hidden[price["id"]]["currency_options"]
    if currency not in options:
        raise invalid(f"The price specified only supports `{price['currency']}`, not `{currency}`.", "currency")
    return int(options[currency]["unit_amount"])


ROUTES = (
    Route("POST", "/v1/products", create_product, {"name!": str, "metadata": METADATA}),
    Route("GET", "/v1/products", list_products, {"active": bool}),
    Route("POST", "/v1/products/{id}", update_product, {"name": str}),
    Route(
        "POST",
        "/v1/prices",
        create_price,
        {
            "currency!": str,
            "currency_options": {"*": {"tax_behavior": TAX_BEHAVIOR, "unit_amount!": int}},
            "lookup_key": str,
            "product!": str,
            "recurring!": {"interval!": INTERVAL},
            "tax_behavior": TAX_BEHAVIOR,
            "transfer_lookup_key": bool,
            "unit_amount!": int,
        },
    ),
    Route("GET", "/v1/prices", list_prices, {"active": bool, "lookup_keys": [str], "type": frozenset({"recurring"})}),
)
