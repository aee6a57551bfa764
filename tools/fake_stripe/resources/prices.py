"""Prices."""

from tools.fake_stripe.billing.catalogue import make_price, make_product, set_lookup_key
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    Choice,
    Clearable,
    Fields,
    Flag,
    Many,
    Metadata,
    Moment,
    Table,
    Text,
    Whole,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import missing_parameter
from tools.fake_stripe.resources.products import RECURRING, TAX_BEHAVIOR
from tools.fake_stripe.store import Json

OPTIONS = Table(Fields({"tax_behavior": TAX_BEHAVIOR, "unit_amount!": Whole(0)}))
CREATE = Fields(
    {
        "active": Flag(),
        "currency!": Text(3),
        "currency_options": OPTIONS,
        "lookup_key": Text(200),
        "metadata": Metadata(),
        "nickname": Text(),
        "product": Text(),
        "product_data": Fields({"active": Flag(), "id": Text(), "metadata": Metadata(), "name!": Text()}),
        "recurring": RECURRING,
        "tax_behavior": TAX_BEHAVIOR,
        "transfer_lookup_key": Flag(),
        "unit_amount!": Whole(0),
    },
)
UPDATE = Fields(
    {
        "active": Flag(),
        "lookup_key": Clearable(Text(200)),
        "metadata": Metadata(),
        "nickname": Clearable(Text()),
        "tax_behavior": TAX_BEHAVIOR,
        "transfer_lookup_key": Flag(),
    },
)
LIST = Fields(
    {
        "active": Flag(),
        "created": Moment(),
        "currency": Text(),
        "lookup_keys": Many(Text()),
        "product": Text(),
        "recurring": Fields({"interval": Choice("day", "month", "week", "year")}),
        "type": Choice("one_time", "recurring"),
    },
)


def create(call: Call) -> Json:
    """Add a price, of a product that exists or is made with it."""
    product = call.referred("product", "product")
    if product is None:
        if "product_data" not in call.params:
            raise missing_parameter("product")
        product = make_product(call.core, call.params["product_data"])
    return make_price(call.core, product, call.params)


def retrieve(call: Call) -> Json:
    """Return a price."""
    return call.named("price")


def update(call: Call) -> Json:
    """Change a price; its amount never changes."""
    price, params = call.named("price"), call.params
    set_lookup_key(call.core, price, params)
    plain = ("active", "nickname", "tax_behavior")
    price |= {name: params[name] for name in plain if name in params}
    price["metadata"] = merged_metadata(price["metadata"], params.get("metadata", {}))
    call.store.changes += 1
    call.core.announce("price.updated", price)
    return price


def list_all(call: Call) -> Json:
    """List prices."""
    keys, interval = call.params.get("lookup_keys"), call.params.get("recurring", {}).get("interval")
    found = []
    for price in call.store.all("price"):
        if not matches(price, call.params, "active", "currency", "product", "type"):
            continue
        if keys is not None and price["lookup_key"] not in keys:
            continue
        if interval is None or (price["recurring"] or {}).get("interval") == interval:
            found.append(price)
    return page(call, found)


ROUTES = (
    Route("POST", "/v1/prices", create, "plan_write", CREATE),
    Route("GET", "/v1/prices", list_all, "plan_read", LIST),
    Route("GET", "/v1/prices/{id}", retrieve, "plan_read"),
    Route("POST", "/v1/prices/{id}", update, "plan_write", UPDATE),
)
