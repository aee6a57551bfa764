"""The kinds of object, each with the prefix of its ids and what can be expanded in it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Kind:
    """One value of the field `object`.

    `references` are fields that hold an id, with the kind it is of (`a.b` is the field `b` of `a`); `included` are
    fields that an answer has only if they are expanded.
    """

    prefix: str
    noun: str
    references: dict[str, str] = field(default_factory=dict)
    included: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "customer": Kind(
        "cus",
        "customer",
        {"invoice_settings.default_payment_method": "payment_method", "test_clock": "test_helpers.test_clock"},
    ),
    "product": Kind("prod", "product", {"default_price": "price"}),
    "price": Kind("price", "price", {"product": "product"}, ("currency_options",)),
    "payment_method": Kind("pm", "PaymentMethod", {"customer": "customer"}),
    "checkout.session": Kind(
        "cs_test",
        "checkout.session",
        {"customer": "customer", "subscription": "subscription", "invoice": "invoice"},
        ("line_items",),
    ),
    "billing_portal.configuration": Kind("bpc", "configuration"),
    "billing_portal.session": Kind("bps", "session", {"configuration": "billing_portal.configuration"}),
    "subscription": Kind(
        "sub",
        "subscription",
        {
            "customer": "customer",
            "default_payment_method": "payment_method",
            "latest_invoice": "invoice",
            "schedule": "subscription_schedule",
            "test_clock": "test_helpers.test_clock",
        },
    ),
    "subscription_item": Kind("si", "subscription_item"),
    "subscription_schedule": Kind("sub_sched", "subscription schedule", {"subscription": "subscription"}),
    "invoice": Kind(
        "in",
        "invoice",
        {
            "customer": "customer",
            "default_payment_method": "payment_method",
            "parent.subscription_details.subscription": "subscription",
            "test_clock": "test_helpers.test_clock",
        },
    ),
    "line_item": Kind("il", "line item"),
    "invoiceitem": Kind("ii", "invoiceitem", {"customer": "customer", "invoice": "invoice"}),
    "item": Kind("li", "line item"),
    "event": Kind("evt", "event"),
    "test_helpers.test_clock": Kind("clock", "test clock"),
}
