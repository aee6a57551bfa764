"""Checkout sessions, in the mode `subscription`."""

from tools.fake_stripe.billing.catalogue import amount_in
from tools.fake_stripe.billing.checkout import complete, expire
from tools.fake_stripe.billing.payment_methods import card_behind
from tools.fake_stripe.billing.periods import DAY
from tools.fake_stripe.billing.subscription_items import currency_of
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    Address,
    Choice,
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
from tools.fake_stripe.store import Json, blank

AUTO = Choice("auto", "never")
LOCALE = Choice("auto", "da", "de", "en", "es", "fr", "it", "ja", "nb", "nl", "pl", "pt", "sv")
TRIAL_SETTINGS = Fields(
    {
        "end_behavior!": Fields(
            {"missing_payment_method!": Choice("cancel", "create_invoice", "pause")},
        ),
    },
)
CREATE = Fields(
    {
        "allow_promotion_codes": Flag(),
        "automatic_tax": Fields({"enabled!": Flag()}),
        "billing_address_collection": Choice("auto", "required"),
        "client_reference_id": Text(200),
        "currency": Text(3),
        "customer": Text(),
        "customer_update": Fields({"address": AUTO, "name": AUTO, "shipping": AUTO}),
        "expires_at": Whole(),
        "line_items!": Many(Fields({"price!": Text(), "quantity": Whole(1)})),
        "locale": LOCALE,
        "metadata": Metadata(),
        "mode!": Choice("payment", "setup", "subscription"),
        "payment_method_collection": Choice("always", "if_required"),
        "submit_type": Choice("auto", "subscribe"),
        "subscription_data": Fields(
            {
                "description": Text(),
                "metadata": Metadata(),
                "trial_end": Whole(),
                "trial_period_days": Whole(1),
                "trial_settings": TRIAL_SETTINGS,
            },
        ),
        "success_url!": Address(),
        "cancel_url": Address(),
        "tax_id_collection": Fields({"enabled!": Flag(), "required": Choice("if_supported", "never")}),
        "ui_mode": Choice("hosted_page"),
    },
)
UPDATE = Fields({"metadata": Metadata()})
CONFIRM = Fields({"expected_amount": Whole(), "payment_method": Text()})
LIST = Fields(
    {
        "created": Moment(),
        "customer": Text(),
        "status": Choice("complete", "expired", "open"),
        "subscription": Text(),
    },
)
SHORTEST, LONGEST = 30 * 60, DAY
NEAREST_TRIAL_END = 2 * DAY


def create(call: Call) -> Json:
    """Add an open session with the address of its page. Raise Refusal if the parameters do not fit together."""
    params = call.params
    customer = call.referred("customer", "customer")
    if params["mode"] != "subscription" or customer is None:
        raise invalid("This simulation has sessions of mode `subscription` with a `customer` only.", "mode")
    now = call.core.now(customer["id"])
    _check_tax(params)
    _check_trial(params, now)
    expires_at = _expiry(params, now)
    currency, lines = _line_items(call, customer)
    data = params.get("subscription_data", {})
    total = 0 if data.keys() & {"trial_end", "trial_period_days"} else sum(line["amount_total"] for line in lines)
    identifier = call.store.new_id("checkout.session")
    optional = ("allow_promotion_codes", "billing_address_collection", "cancel_url", "client_reference_id", "locale")
    return call.store.add(
        "checkout.session",
        {
            **_empty(),
            **{name: params.get(name) for name in optional},
            "amount_subtotal": total,
            "amount_total": total,
            "automatic_tax": _automatic_tax(params),
            "created": now,
            "currency": currency,
            "customer": customer["id"],
            "expires_at": expires_at,
            "metadata": merged_metadata({}, params.get("metadata", {})),
            "mode": params["mode"],
            "payment_method_collection": params.get("payment_method_collection", "always"),
            "success_url": params["success_url"],
            "tax_id_collection": {"required": "never", "enabled": False, **params.get("tax_id_collection", {})},
            "url": f"{call.core.base_url}/c/pay/{identifier}",
        },
        identifier=identifier,
        hidden={
            "items": [{"price": line["price"]["id"], "quantity": line["quantity"]} for line in lines],
            "line_items": {
                "object": "list",
                "data": lines,
                "has_more": False,
                "url": f"/v1/checkout/sessions/{identifier}/line_items",
            },
            "subscription_data": data,
            "takes_address": params.get("customer_update", {}).get("address") == "auto",
        },
    )


def _line_items(call: Call, customer: Json) -> tuple[str, list[Json]]:
    """Return the currency and the lines of a session. Raise Refusal if they do not fit together."""
    given = call.params["line_items"]
    prices = [
        call.store.get("price", item["price"], f"line_items[{position}][price]") for position, item in enumerate(given)
    ]
    if not any(price["recurring"] for price in prices):
        raise invalid("You must provide at least one recurring price in `subscription` mode when using prices.", "mode")
    currency = currency_of(call.core, customer, prices, call.params.get("currency"))
    quantities = [item.get("quantity", 1) for item in given]
    return currency, [_line_item(call, *line, currency) for line in zip(prices, quantities, strict=True)]


def _expiry(params: Json, now: int) -> int:
    """Return when the session expires. Raise Refusal if that is too early or too late."""
    expires_at = int(params.get("expires_at", now + LONGEST))
    if not now + SHORTEST <= expires_at <= now + LONGEST:
        bounds = "at least 30 minutes and less than 24 hours from Checkout Session creation."
        raise invalid(f"The `expires_at` timestamp must be {bounds}", "expires_at")
    return expires_at


def _empty() -> Json:
    """Return the fields that are the same in every new session."""
    return {
        **blank("after_expiration client_secret collected_information consent consent_collection"),
        **blank("currency_conversion customer_account customer_creation customer_details customer_email discounts"),
        **blank("integration_identifier invoice invoice_creation name_collection optional_items origin_context"),
        **blank("payment_intent payment_link payment_method_configuration_details permissions presentment_details"),
        **blank("recovered_from redirect_on_completion return_url setup_intent shipping_address_collection"),
        **blank("shipping_cost submit_type subscription wallet_options allowed_payment_method_types branding_settings"),
        **blank("excluded_payment_method_types managed_payments"),
        "adaptive_pricing": {"enabled": False},
        "custom_fields": [],
        "custom_text": blank("after_submit shipping_address submit terms_of_service_acceptance"),
        "livemode": False,
        "payment_method_options": {"card": {"request_three_d_secure": "automatic"}},
        "payment_method_types": ["card"],
        "payment_status": "unpaid",
        "phone_number_collection": {"enabled": False},
        "saved_payment_method_options": {
            "allow_redisplay_filters": ["always"],
            "payment_method_remove": "disabled",
            "payment_method_save": None,
        },
        "shipping_options": [],
        "status": "open",
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
        "ui_mode": "hosted_page",
    }


def _automatic_tax(params: Json) -> Json:
    enabled = params.get("automatic_tax", {}).get("enabled", False)
    return {
        "enabled": enabled,
        "liability": {"type": "self"} if enabled else None,
        "provider": "stripe" if enabled else None,
        "status": "requires_location_inputs" if enabled else None,
    }


def _line_item(call: Call, price: Json, quantity: int, currency: str) -> Json:
    amount = amount_in(call.core, price, currency) * quantity
    return {
        "id": call.store.new_id("item"),
        "object": "item",
        "adjustable_quantity": None,
        "amount_discount": 0,
        "amount_subtotal": amount,
        "amount_tax": 0,
        "amount_total": amount,
        "currency": currency,
        "description": call.store.objects["product"][price["product"]]["name"],
        "metadata": {},
        "price": price,
        "quantity": quantity,
    }


def _check_tax(params: Json) -> None:
    """Raise Refusal if taxes need an address or a name that the customer may not get from the page."""
    updates = params.get("customer_update", {})
    if params.get("automatic_tax", {}).get("enabled") and updates.get("address") != "auto":
        message = (
            "Automatic tax calculation in Checkout requires a valid address on the Customer. Add a valid address to "
            "the Customer or set either `customer_update[address]` to 'auto' or `customer_update[shipping]` to 'auto' "
            "to save the address entered in Checkout to the Customer."
        )
        raise invalid(message, code="customer_tax_location_invalid")
    if params.get("tax_id_collection", {}).get("enabled") and updates.get("name") != "auto":
        message = (
            "Tax ID collection requires updating business name on the customer. To enable tax ID collection for an "
            "existing customer, please set `customer_update[name]` to `auto`."
        )
        raise invalid(message)


def _check_trial(params: Json, now: int) -> None:
    data = params.get("subscription_data", {})
    if "trial_end" in data and data["trial_end"] < now + NEAREST_TRIAL_END:
        message = "The `trial_end` date has to be at least 2 days in the future."
        raise invalid(message, "subscription_data[trial_end]")
    if "trial_end" in data and "trial_period_days" in data:
        message = "You may only specify one of these parameters: trial_end, trial_period_days."
        raise invalid(message, "subscription_data[trial_end]")


def retrieve(call: Call) -> Json:
    """Return a session."""
    return call.named("checkout.session")


def update(call: Call) -> Json:
    """Change the metadata of a session."""
    session = call.named("checkout.session")
    session["metadata"] = merged_metadata(session["metadata"], call.params.get("metadata", {}))
    call.store.changes += 1
    return session


def expire_session(call: Call) -> Json:
    """Expire an open session."""
    session = call.named("checkout.session")
    expire(call.core, session)
    return session


def list_all(call: Call) -> Json:
    """List sessions."""
    found = call.store.all("checkout.session")
    return page(call, [each for each in found if matches(each, call.params, "customer", "status", "subscription")])


def list_line_items(call: Call) -> Json:
    """List what a session sells."""
    session = call.named("checkout.session")
    return page(call, call.store.hidden[session["id"]]["line_items"]["data"])


def retrieve_page(call: Call) -> Json:
    """Return a session as its page does for itself: undocumented, and what `stripe trigger` calls."""
    return call.named("checkout.session")


def confirm_page(call: Call) -> Json:
    """Pay a session as its page does for itself."""
    session = call.named("checkout.session")
    method = call.referred("payment_method", "payment_method")
    complete(call.core, session, card_behind(call.core, method) if method else None)
    return session


ROUTES = (
    Route("POST", "/v1/checkout/sessions", create, "checkout_session_write", CREATE),
    Route("GET", "/v1/checkout/sessions", list_all, "checkout_session_read", LIST),
    Route("GET", "/v1/checkout/sessions/{id}", retrieve, "checkout_session_read"),
    Route("POST", "/v1/checkout/sessions/{id}", update, "checkout_session_write", UPDATE),
    Route("POST", "/v1/checkout/sessions/{id}/expire", expire_session, "checkout_session_write"),
    Route("GET", "/v1/checkout/sessions/{id}/line_items", list_line_items, "checkout_session_read"),
    Route("GET", "/v1/payment_pages/{id}", retrieve_page, "checkout_session_read"),
    Route("POST", "/v1/payment_pages/{id}/confirm", confirm_page, "checkout_session_write", CONFIRM),
)
