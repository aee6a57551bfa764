"""Invoices: made as drafts, finalised, collected."""

from dataclasses import asdict, dataclass

from tools.fake_stripe.core import Core
from tools.fake_stripe.payments import card_of_customer, charge
from tools.fake_stripe.periods import DAY
from tools.fake_stripe.refusals import Refusal
from tools.fake_stripe.store import Json


@dataclass(frozen=True, slots=True)
class Line:
    """What an invoice asks money for; the amount of a credit is negative."""

    amount: int
    description: str


def make_invoice(core: Core, subscription: Json, lines: list[Line]) -> Json:
    """Add a draft."""
    invoice = core.store.add(
        "invoice",
        {
            "attempt_count": 0,
            "automatically_finalizes_at": None,
            "created": core.moment,
            "currency": subscription["currency"],
            "customer": subscription["customer"],
            "hosted_invoice_url": None,
            "next_payment_attempt": None,
            "number": None,
            "status": "draft",
            "total": sum(line.amount for line in lines),
        },
        hidden={"subscription": subscription["id"], "lines": [asdict(line) for line in lines]},
    )
    subscription["latest_invoice"] = invoice["id"]
    core.announce("invoice.created", invoice)
    return invoice


def subscription_of(core: Core, invoice: Json) -> Json:
    """Return the subscription of an invoice."""
    return core.store.objects["subscription"][core.store.hidden[invoice["id"]]["subscription"]]


def finalize(core: Core, invoice: Json) -> None:
    """Number a draft, and make it payable. What costs nothing is paid at once."""
    hidden = core.store.hidden[invoice["customer"]]
    hidden["invoices"] += 1
    invoice |= {
        "automatically_finalizes_at": None,
        "hosted_invoice_url": f"{core.base_url}/i/{invoice['id']}",
        "number": f"{invoice['customer'][-8:].upper()}-{hidden['invoices']:04d}",
        "status": "open",
    }
    core.announce("invoice.finalized", invoice)
    if invoice["total"] <= 0:
        _mark_paid(core, invoice)


def _mark_paid(core: Core, invoice: Json) -> None:
    invoice |= {"next_payment_attempt": None, "status": "paid"}
    core.announce("invoice.paid", invoice)


def collect(core: Core, invoice: Json) -> Refusal | None:
    """Charge what is due of an open invoice; what failed is tried again after `retry_days`."""
    refusal = charge(card_of_customer(core, core.store.objects["customer"][invoice["customer"]]))
    invoice["attempt_count"] += 1
    if refusal is None:
        _mark_paid(core, invoice)
        return None
    days, attempts = core.settings.retry_days, invoice["attempt_count"]
    invoice["next_payment_attempt"] = core.moment + days[attempts - 1] * DAY if attempts <= len(days) else None
    core.announce("invoice.payment_failed", invoice)
    return refusal
