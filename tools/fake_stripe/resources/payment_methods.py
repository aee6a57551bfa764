"""Payment methods: cards only."""

from tools.fake_stripe.billing.payment_methods import attach, detach, make_payment_method
from tools.fake_stripe.cards import CARDS, TOKENS, card_of
from tools.fake_stripe.protocol.lists import page
from tools.fake_stripe.protocol.parameters import (
    POSTAL_ADDRESS,
    Choice,
    Clearable,
    Fields,
    Metadata,
    Parameter,
    Text,
    Whole,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import card_error, missing, missing_parameter
from tools.fake_stripe.store import Json

BILLING_DETAILS = Fields(
    {
        "address": Clearable(POSTAL_ADDRESS),
        "email": Clearable(Text()),
        "name": Clearable(Text()),
        "phone": Clearable(Text()),
    },
)
CARD = Fields(
    {"cvc": Text(), "exp_month": Whole(1, 12), "exp_year": Whole(), "number": Text(), "token": Text()},
)
SHARED: dict[str, Parameter] = {"billing_details": BILLING_DETAILS, "metadata": Metadata()}
CREATE = Fields({**SHARED, "card!": CARD, "type!": Choice("card")})
UPDATE = Fields(SHARED)


def create(call: Call) -> Json:
    """Add a card, by its number or by a token. Raise Refusal if it is not a test card."""
    given = call.params["card"]
    number = TOKENS.get(given.get("token", ""), given.get("number"))
    if number is None:
        if "token" in given:
            raise missing("payment_method", given["token"], "card[token]")
        raise missing_parameter("card[number]")
    card = card_of(number)
    if card is None:
        raise card_error("incorrect_number", "Your card number is incorrect.")
    made = make_payment_method(call.core, card, call.params.get("billing_details"))
    made["metadata"] = merged_metadata({}, call.params.get("metadata", {}))
    return made


def retrieve(call: Call) -> Json:
    """Return a card."""
    return call.named("payment_method")


def update(call: Call) -> Json:
    """Change what is known of a card's owner."""
    method, details = call.named("payment_method"), call.params.get("billing_details", {})
    method["billing_details"] |= details
    if details.get("address"):
        method["billing_details"]["address"] = {**dict.fromkeys(POSTAL_ADDRESS.known), **details["address"]}
    method["metadata"] = merged_metadata(method["metadata"], call.params.get("metadata", {}))
    call.store.changes += 1
    call.core.announce("payment_method.updated", method)
    return method


def attach_to_customer(call: Call) -> Json:
    """Save a card for a customer; Stripe's names of test cards make a new one."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    token = TOKENS.get(call.ids["id"])
    method = make_payment_method(call.core, CARDS[token]) if token else call.named("payment_method")
    attach(call.core, method, customer)
    return method


def detach_from_customer(call: Call) -> Json:
    """Take a card from its customer."""
    method = call.named("payment_method")
    detach(call.core, method)
    return method


def list_all(call: Call) -> Json:
    """List the cards of a customer."""
    customer = call.params.get("customer")
    return page(call, [each for each in call.store.all("payment_method") if each["customer"] == customer])


ROUTES = (
    Route("POST", "/v1/payment_methods", create, "payment_method_write", CREATE),
    Route(
        "GET",
        "/v1/payment_methods",
        list_all,
        "payment_method_read",
        Fields({"customer": Text(), "type": Choice("card")}),
    ),
    Route("GET", "/v1/payment_methods/{id}", retrieve, "payment_method_read"),
    Route("POST", "/v1/payment_methods/{id}", update, "payment_method_write", UPDATE),
    Route(
        "POST",
        "/v1/payment_methods/{id}/attach",
        attach_to_customer,
        "payment_method_write",
        Fields({"customer!": Text()}),
    ),
    Route("POST", "/v1/payment_methods/{id}/detach", detach_from_customer, "payment_method_write"),
)
