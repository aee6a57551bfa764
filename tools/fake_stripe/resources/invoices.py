"""Invoices and invoice items."""

from tools.fake_stripe.billing.invoicing import Line, close, finalize, make_invoice, mark_paid
from tools.fake_stripe.billing.subscription_items import add_invoice_item
from tools.fake_stripe.billing.subscriptions import activate, settle, subscription_of
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import (
    Choice,
    Fields,
    Flag,
    Metadata,
    Moment,
    Text,
    Whole,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json

CREATE = Fields(
    {
        "auto_advance": Flag(),
        "collection_method": Choice("charge_automatically"),
        "currency": Text(3),
        "customer!": Text(),
        "description": Text(),
        "metadata": Metadata(),
        "pending_invoice_items_behavior": Choice("exclude", "include"),
    },
)
LIST = Fields(
    {
        "collection_method": Choice("charge_automatically", "send_invoice"),
        "created": Moment(),
        "customer": Text(),
        "status": Choice("draft", "open", "paid", "uncollectible", "void"),
        "subscription": Text(),
    },
)
PAY = Fields({"off_session": Flag(), "paid_out_of_band": Flag(), "payment_method": Text()})
ITEM = Fields(
    {
        "amount!": Whole(),
        "currency": Text(3),
        "customer!": Text(),
        "description": Text(),
        "invoice": Text(),
        "metadata": Metadata(),
    },
)


def create(call: Call) -> Json:
    """Make a draft of the customer's pending items."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    excluded = call.params.get("pending_invoice_items_behavior") == "exclude"
    items = [] if excluded else [each for each in call.store.all("invoiceitem") if _is_pending(each, customer)]
    currency = call.params.get("currency") or (items[0]["currency"] if items else customer["currency"] or "usd")
    lines = [
        Line(
            each["amount"],
            each["description"] or "",
            each["period"]["start"],
            each["period"]["end"],
            invoice_item=each["id"],
        )
        for each in items
    ]
    invoice = make_invoice(call.core, customer, currency, lines, "manual")
    invoice["description"] = call.params.get("description")
    invoice["metadata"] = merged_metadata({}, call.params.get("metadata", {}))
    for each in items:
        each["invoice"] = invoice["id"]
    return invoice


def _is_pending(item: Json, customer: Json) -> bool:
    return item["customer"] == customer["id"] and item["invoice"] is None and item["parent"] is None


def retrieve(call: Call) -> Json:
    """Return an invoice."""
    return call.named("invoice")


def list_all(call: Call) -> Json:
    """List invoices."""
    found = [each for each in call.store.all("invoice") if matches(each, call.params, "collection_method", "customer")]
    status, wanted = call.params.get("status"), call.params.get("subscription")
    if status:
        found = [each for each in found if each["status"] == status]
    if wanted:
        found = [each for each in found if (subscription_of(call.core, each) or {}).get("id") == wanted]
    return page(call, found)


def list_lines(call: Call) -> Json:
    """List the lines of an invoice."""
    return page(call, call.named("invoice")["lines"]["data"])


def finalize_draft(call: Call) -> Json:
    """Finalise a draft."""
    invoice = call.named("invoice")
    finalize(call.core, invoice)
    return invoice


def pay(call: Call) -> Json:
    """Pay an invoice with a card, or record that it was paid elsewhere. Raise Refusal if the card is declined."""
    invoice = call.named("invoice")
    method = call.referred("payment_method", "payment_method")
    if invoice["status"] == "draft":
        finalize(call.core, invoice)
    elif invoice["status"] == "paid":
        raise invalid("Invoice is already paid", code="invoice_already_paid")
    elif invoice["status"] not in {"open", "uncollectible"}:
        raise invalid(f"This invoice can no longer be paid: it is {invoice['status']}.")
    if call.params.get("paid_out_of_band"):
        mark_paid(call.core, invoice)
        subscription = subscription_of(call.core, invoice)
        if subscription and subscription["status"] in {"incomplete", "past_due", "unpaid"}:
            activate(call.core, subscription)
    elif invoice["status"] != "paid":
        refusal = settle(call.core, invoice, method).refusal
        if refusal:
            raise refusal
    return invoice


def void(call: Call) -> Json:
    """Void an open invoice."""
    close(call.core, call.named("invoice"), "void")
    return call.named("invoice")


def mark_uncollectible(call: Call) -> Json:
    """Mark an open invoice as uncollectible."""
    close(call.core, call.named("invoice"), "uncollectible")
    return call.named("invoice")


def create_item(call: Call) -> Json:
    """Add a pending line of a customer."""
    params = call.params
    customer = call.store.get("customer", params["customer"], "customer")
    call.referred("invoice", "invoice")
    currency = params.get("currency") or customer["currency"] or "usd"
    metadata = merged_metadata({}, params.get("metadata", {}))
    item = add_invoice_item(
        call.core, customer, params["amount"], currency, description=params.get("description"), metadata=metadata
    )
    call.core.announce("invoiceitem.created", item)
    return item


def retrieve_item(call: Call) -> Json:
    """Return an invoice item."""
    return call.named("invoiceitem")


def list_items(call: Call) -> Json:
    """List invoice items."""
    found = call.store.all("invoiceitem")
    wanted = {name: call.params[name] for name in ("customer", "invoice") if name in call.params}
    return page(call, [each for each in found if all(each[name] == value for name, value in wanted.items())])


ROUTES = (
    Route("POST", "/v1/invoices", create, "invoice_write", CREATE),
    Route("GET", "/v1/invoices", list_all, "invoice_read", LIST),
    Route("GET", "/v1/invoices/{id}", retrieve, "invoice_read"),
    Route("GET", "/v1/invoices/{id}/lines", list_lines, "invoice_read"),
    Route("POST", "/v1/invoices/{id}/finalize", finalize_draft, "invoice_write", Fields({"auto_advance": Flag()})),
    Route("POST", "/v1/invoices/{id}/pay", pay, "invoice_write", PAY),
    Route("POST", "/v1/invoices/{id}/void", void, "invoice_write"),
    Route("POST", "/v1/invoices/{id}/mark_uncollectible", mark_uncollectible, "invoice_write"),
    Route("POST", "/v1/invoiceitems", create_item, "invoice_write", ITEM),
    Route("GET", "/v1/invoiceitems", list_items, "invoice_read", Fields({"customer": Text(), "invoice": Text()})),
    Route("GET", "/v1/invoiceitems/{id}", retrieve_item, "invoice_read"),
)
