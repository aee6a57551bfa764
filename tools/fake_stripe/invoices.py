"""The calls about invoices."""

from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import settle


def list_all(call: Call) -> Json:
    """List invoices."""
    return call.page(call.store.all("invoice"), "customer")


def pay(call: Call) -> Json:
    """Pay an open invoice. Raise Refusal if the card is declined."""
    invoice = call.named("invoice")
    if invoice["status"] != "open":
        raise invalid(f"Invoice is {invoice['status']}: only open invoices can be paid.")
    refusal = settle(call.core, invoice).refusal
    if refusal:
        raise refusal
    return invoice


ROUTES = (
    Route("GET", "/v1/invoices", list_all, {"customer": str}),
    Route("POST", "/v1/invoices/{id}/pay", pay, {}),
)
