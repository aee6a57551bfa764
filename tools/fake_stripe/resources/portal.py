"""The billing portal: configurations, and sessions with the address of a page."""

from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    Address,
    Choice,
    Clearable,
    Fields,
    Flag,
    Many,
    Metadata,
    Parameter,
    Text,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import invalid, missing_parameter
from tools.fake_stripe.resources.checkout_sessions import LOCALE
from tools.fake_stripe.resources.subscriptions import FEEDBACK, PRORATION
from tools.fake_stripe.store import Json, blank

MAX_PRODUCTS = 10
ENABLED = Fields({"enabled!": Flag()})
PRODUCT = Fields({"prices!": Many(Text()), "product!": Text()})
CONDITION = Fields({"type!": Choice("decreasing_item_amount", "shortening_interval")})
UPDATES = Choice("price", "promotion_code", "quantity")


def _features(*, required: str) -> Fields:
    """Return the parameter `features`; `required` marks what only the first call has to give."""
    return Fields(
        {
            "customer_update": Fields(
                {
                    "allowed_updates": Many(Choice("address", "email", "name", "phone", "shipping", "tax_id")),
                    f"enabled{required}": Flag(),
                },
            ),
            "invoice_history": ENABLED,
            "payment_method_update": ENABLED,
            "subscription_cancel": Fields(
                {
                    "cancellation_reason": Fields({"enabled!": Flag(), f"options{required}": Many(FEEDBACK)}),
                    f"enabled{required}": Flag(),
                    "mode": Choice("at_period_end", "immediately"),
                    "proration_behavior": PRORATION,
                },
            ),
            "subscription_update": Fields(
                {
                    "default_allowed_updates": Many(UPDATES),
                    f"enabled{required}": Flag(),
                    "products": Clearable(Many(PRODUCT)),
                    "proration_behavior": PRORATION,
                    "schedule_at_period_end": Fields({"conditions": Many(CONDITION)}),
                    "trial_update_behavior": Choice("continue_trial", "end_trial"),
                },
            ),
        },
    )


SHARED: dict[str, Parameter] = {
    "business_profile": Fields(
        {
            "headline": Clearable(Text(60)),
            "privacy_policy_url": Address(),
            "terms_of_service_url": Address(),
        },
    ),
    "default_return_url": Clearable(Address()),
    "metadata": Metadata(),
    "name": Clearable(Text()),
}
CREATE = Fields({**SHARED, "features!": _features(required="!")})
UPDATE = Fields({**SHARED, "active": Flag(), "features": _features(required="")})
LIST = Fields({"active": Flag(), "is_default": Flag()})
AFTER_COMPLETION = Fields(
    {
        "hosted_confirmation": Fields({"custom_message": Text(500)}),
        "redirect": Fields({"return_url!": Address()}),
        "type!": Choice("hosted_confirmation", "portal_homepage", "redirect"),
    },
)
SUBSCRIPTION = Fields({"subscription!": Text()})
FLOW = Fields(
    {
        "after_completion": AFTER_COMPLETION,
        "subscription_cancel": SUBSCRIPTION,
        "subscription_update": SUBSCRIPTION,
        "type!": Choice("payment_method_update", "subscription_cancel", "subscription_update"),
    },
)
SESSION = Fields(
    {
        "configuration": Text(),
        "customer!": Text(),
        "flow_data": FLOW,
        "locale": LOCALE,
        "return_url": Address(),
    },
)


def create(call: Call) -> Json:
    """Add a configuration; the first one is the default."""
    features = call.params["features"]
    made = call.store.add(
        "billing_portal.configuration",
        {
            "active": True,
            "application": None,
            "business_profile": blank("headline privacy_policy_url terms_of_service_url"),
            "created": call.core.now(),
            "default_return_url": None,
            "features": {
                "customer_update": {"allowed_updates": [], "enabled": False},
                "invoice_history": {"enabled": False},
                "payment_method_update": {"enabled": False, "payment_method_configuration": None},
                "subscription_cancel": {
                    "cancellation_reason": {"enabled": False, "feedback_options": None, "options": []},
                    "enabled": False,
                    "mode": "at_period_end",
                    "proration_behavior": "none",
                },
                "subscription_pause": {
                    "duration": {"interval_options": [], "type": "indefinite"},
                    "enabled": False,
                },
                "subscription_update": {
                    "billing_cycle_anchor": None,
                    "default_allowed_updates": [],
                    "enabled": False,
                    "products": [],
                    "proration_behavior": "none",
                    "schedule_at_period_end": {"conditions": []},
                    "trial_update_behavior": "end_trial",
                },
            },
            "is_default": not call.store.all("billing_portal.configuration"),
            "livemode": False,
            "login_page": {"enabled": False, "url": None},
            "metadata": {},
            "name": None,
            "updated": call.core.now(),
        },
    )
    try:
        _apply(call, made, features)
    except Exception:
        call.store.delete(made)
        raise
    call.core.announce("billing_portal.configuration.created", made)
    return made


def _apply(call: Call, configuration: Json, features: Json) -> None:
    """Set what the parameters say. Raise Refusal for unknown products and prices."""
    params, known = call.params, configuration["features"]
    for name, given in features.items():
        feature = known[name]
        inner = given.keys() & {"cancellation_reason", "schedule_at_period_end"}
        feature |= given | {each: {**feature[each], **given[each]} for each in inner}
        if given.get("products") is not None:
            feature["products"] = _products(call, given["products"])
    configuration["business_profile"] |= params.get("business_profile", {})
    configuration |= {name: params[name] for name in ("active", "default_return_url", "name") if name in params}
    configuration["metadata"] = merged_metadata(configuration["metadata"], params.get("metadata", {}))
    configuration["updated"] = call.core.now()
    call.store.changes += 1


def _products(call: Call, given: list[Json]) -> list[Json]:
    name = "features[subscription_update][products]"
    if len(given) > MAX_PRODUCTS:
        raise invalid(f"You may only specify up to {MAX_PRODUCTS} products.", name)
    for position, each in enumerate(given):
        call.store.get("product", each["product"], f"{name}[{position}][product]")
        for number, price in enumerate(each["prices"]):
            call.store.get("price", price, f"{name}[{position}][prices][{number}]")
    plain = {"enabled": False, "maximum": None, "minimum": 1}
    return [{"adjustable_quantity": plain, **each} for each in given]


def retrieve(call: Call) -> Json:
    """Return a configuration."""
    return call.named("billing_portal.configuration")


def update(call: Call) -> Json:
    """Change a configuration."""
    configuration = call.named("billing_portal.configuration")
    _apply(call, configuration, call.params.get("features", {}))
    call.core.announce("billing_portal.configuration.updated", configuration)
    return configuration


def list_all(call: Call) -> Json:
    """List configurations."""
    found = call.store.all("billing_portal.configuration")
    return page(call, [each for each in found if matches(each, call.params, "active", "is_default")])


def create_session(call: Call) -> Json:
    """Add a session of the portal with the address of its page. Raise Refusal if nothing is configured."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    configuration = call.referred("billing_portal.configuration", "configuration") or _default(call)
    if not configuration["active"]:
        raise invalid("This configuration is not active.", "configuration")
    identifier = call.store.new_id("billing_portal.session")
    session = call.store.add(
        "billing_portal.session",
        {
            **blank("after_expiration customer_account on_behalf_of"),
            "configuration": configuration["id"],
            "created": call.core.now(customer["id"]),
            "customer": customer["id"],
            "flow": _flow(call, customer, configuration),
            "livemode": False,
            "locale": call.params.get("locale"),
            "return_url": call.params.get("return_url", configuration["default_return_url"]),
            "url": f"{call.core.base_url}/p/session/{identifier}",
        },
        identifier=identifier,
    )
    call.core.announce("billing_portal.session.created", session)
    return session


def _default(call: Call) -> Json:
    for configuration in call.store.all("billing_portal.configuration"):
        if configuration["is_default"]:
            return configuration
    raise invalid(
        "No configuration provided and your test mode default configuration has not been created. Provide a "
        "configuration or create your default by saving your customer portal settings in test mode at "
        "https://dashboard.stripe.com/test/settings/billing/portal.",
    )


def _flow(call: Call, customer: Json, configuration: Json) -> Json | None:
    """Return the flow of a session that shows one step only. Raise Refusal if that is not enabled."""
    given = call.params.get("flow_data")
    if given is None:
        return None
    kind = given["type"]
    if not configuration["features"][kind]["enabled"]:
        message = f"This flow is disabled in your portal configuration: enable `{kind}` first."
        raise invalid(message, "flow_data[type]")
    if kind != "payment_method_update":
        param = f"flow_data[{kind}][subscription]"
        if kind not in given:
            raise missing_parameter(f"flow_data[{kind}]")
        subscription = call.store.get("subscription", given[kind]["subscription"], param)
        if subscription["customer"] != customer["id"]:
            raise invalid(f"No such subscription: '{subscription['id']}'", param, "resource_missing")
    after = {**blank("hosted_confirmation redirect"), **given.get("after_completion", {"type": "portal_homepage"})}
    steps = blank("customer_update subscription_pause subscription_update_confirm")
    cancel = given.get("subscription_cancel")
    return {
        **steps,
        "after_completion": after,
        "subscription_cancel": cancel and {"retention": None, **cancel},
        "subscription_update": given.get("subscription_update"),
        "type": kind,
    }


ROUTES = (
    Route("POST", "/v1/billing_portal/configurations", create, "customer_portal_write", CREATE),
    Route("GET", "/v1/billing_portal/configurations", list_all, "customer_portal_read", LIST),
    Route("GET", "/v1/billing_portal/configurations/{id}", retrieve, "customer_portal_read"),
    Route("POST", "/v1/billing_portal/configurations/{id}", update, "customer_portal_write", UPDATE),
    Route("POST", "/v1/billing_portal/sessions", create_session, "customer_portal_write", SESSION),
)
