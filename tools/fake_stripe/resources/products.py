"""Products."""

from tools.fake_stripe.billing.catalogue import make_price, make_product
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    Choice,
    Clearable,
    Fields,
    Flag,
    Many,
    Metadata,
    Moment,
    Text,
    Whole,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json

RECURRING = Fields({"interval!": Choice("day", "month", "week", "year"), "interval_count": Whole(1)})
TAX_BEHAVIOR = Choice("exclusive", "inclusive", "unspecified")
CREATE = Fields(
    {
        "active": Flag(),
        "default_price_data": Fields(
            {
                "currency!": Text(),
                "recurring": RECURRING,
                "tax_behavior": TAX_BEHAVIOR,
                "unit_amount!": Whole(0),
            },
        ),
        "description": Text(),
        "id": Text(),
        "metadata": Metadata(),
        "name!": Text(250),
        "tax_code": Text(),
        "unit_label": Text(),
    },
)
UPDATE = Fields(
    {
        "active": Flag(),
        "default_price": Text(),
        "description": Clearable(Text()),
        "metadata": Metadata(),
        "name": Text(250),
        "tax_code": Clearable(Text()),
        "unit_label": Clearable(Text()),
    },
)
LIST = Fields({"active": Flag(), "created": Moment(), "ids": Many(Text())})


def create(call: Call) -> Json:
    """Add a product, with a price if one is given."""
    product = make_product(call.core, call.params)
    if "default_price_data" in call.params:
        product["default_price"] = make_price(call.core, product, call.params["default_price_data"])["id"]
    return product


def retrieve(call: Call) -> Json:
    """Return a product."""
    return call.named("product")


def update(call: Call) -> Json:
    """Change a product."""
    product, params = call.named("product"), call.params
    call.referred("price", "default_price")
    plain = ("active", "default_price", "description", "name", "tax_code", "unit_label")
    product |= {name: params[name] for name in plain if name in params}
    product["metadata"] = merged_metadata(product["metadata"], params.get("metadata", {}))
    product["updated"] = call.core.now()
    call.store.changes += 1
    call.core.announce("product.updated", product)
    return product


def delete(call: Call) -> Json:
    """Delete a product that has no prices."""
    product = call.named("product")
    if any(price["product"] == product["id"] for price in call.store.all("price")):
        raise invalid("This product cannot be deleted because it has one or more user-created prices.")
    call.store.delete(product)
    call.core.announce("product.deleted", product)
    return {"id": product["id"], "object": "product", "deleted": True}


def list_all(call: Call) -> Json:
    """List products."""
    ids = call.params.get("ids")
    found = [each for each in call.store.all("product") if matches(each, call.params, "active")]
    return page(call, [each for each in found if ids is None or each["id"] in ids])


ROUTES = (
    Route("POST", "/v1/products", create, "product_write", CREATE),
    Route("GET", "/v1/products", list_all, "product_read", LIST),
    Route("GET", "/v1/products/{id}", retrieve, "product_read"),
    Route("POST", "/v1/products/{id}", update, "product_write", UPDATE),
    Route("DELETE", "/v1/products/{id}", delete, "product_write"),
)
