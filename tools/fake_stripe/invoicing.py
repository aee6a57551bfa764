"""Invoices: made as drafts, finalised, collected."""

from dataclasses import dataclass

from tools.fake_stripe.core import Core
from tools.fake_stripe.payments import Charge, charge, payment_method_of
from tools.fake_stripe.periods import DAY
from tools.fake_stripe.store import Json


@dataclass(frozen=True, slots=True)
class Line:
    """A line before its invoice exists."""

    amount: int
    description: str
    start: int
    end: int

    def as_json(self, core: Core, currency: str) -> Json:
        """Return the line as the API shows it."""
        return {
            "id": core.store.new_id("line_item"),
            "object": "line_item",
            "amount": self.amount,
            "currency": currency,
            "description": self.description,
            "livemode": False,
            "period": {"end": self.end, "start": self.start},
        }


def make_invoice(core: Core, subscription: Json, lines: list[Line], reason: str) -> Json:
    """Add a draft."""
    now, total, currency = core.moment, sum(line.amount for line in lines), subscription["currency"]
    identifier = core.store.new_id("invoice")
    invoice = core.store.add(
        "invoice",
        {
            "amount_due": max(0, total),
            "amount_paid": 0,
            "amount_remaining": max(0, total),
            "attempt_count": 0,
            "auto_advance": True,
            "automatically_finalizes_at": None,
            "billing_reason": reason,
            "created": now,
            "currency": currency,
            "customer": subscription["customer"],
            "hosted_invoice_url": None,
            "lines": {
                "object": "list",
                "data": [line.as_json(core, currency) for line in lines],
                "has_more": False,
                "url": f"/v1/invoices/{identifier}/lines",
            },
            "livemode": False,
            "next_payment_attempt": None,
            "number": None,
            "parent": {
                "type": "subscription_details",
                "subscription_details": {"subscription": subscription["id"]},
            },
            "starting_balance": 0,
            "status": "draft",
            "total": total,
        },
        identifier=identifier,
    )
    subscription["latest_invoice"] = identifier
    core.announce("invoice.created", invoice)
    return invoice


def subscription_of(core: Core, invoice: Json) -> Json:
    """Return the subscription of an invoice."""
    return core.store.objects["subscription"][invoice["parent"]["subscription_details"]["subscription"]]


def finalize(core: Core, invoice: Json) -> None:
    """Make a draft payable: number it, apply the customer's balance. What costs nothing is paid at once."""
    customer = core.store.objects["customer"][invoice["customer"]]
    hidden = core.store.hidden[customer["id"]]
    hidden["invoices"] += 1
    balance = customer["balance"]
    due = max(0, invoice["total"] + balance)
    customer["balance"] += invoice["total"] - due
    invoice |= {
        "amount_due": due,
        "amount_remaining": due,
        "automatically_finalizes_at": None,
        "hosted_invoice_url": f"{core.base_url}/i/{invoice['id']}",
        "number": f"{customer['id'][-8:].upper()}-{hidden['invoices']:04d}",
        "starting_balance": balance,
        "status": "open",
    }
    core.announce("invoice.finalized", invoice)
    if due == 0:
        _mark_paid(core, invoice)


def _mark_paid(core: Core, invoice: Json) -> None:
    invoice |= {
        "amount_paid": invoice["amount_due"],
        "amount_remaining": 0,
        "auto_advance": False,
        "next_payment_attempt": None,
        "status": "paid",
    }
    core.announce("invoice.paid", invoice)


def collect(core: Core, invoice: Json, method: Json | None = None, *, is_authenticated: bool = False) -> Charge:
    """Charge what is due of an open invoice, and record the outcome; what failed is tried again after `retry_days`."""
    customer = core.store.objects["customer"][invoice["customer"]]
    method = method or payment_method_of(core, customer, subscription_of(core, invoice))
    outcome = charge(core, method, is_authenticated=is_authenticated)
    invoice["attempt_count"] += 1
    if not outcome.refusal:
        _mark_paid(core, invoice)
        return outcome
    days, attempts = core.settings.retry_days, invoice["attempt_count"]
    invoice["next_payment_attempt"] = core.moment + days[attempts - 1] * DAY if attempts <= len(days) else None
    if outcome.challenge:
        core.announce("invoice.payment_action_required", invoice)
    core.announce("invoice.payment_failed", invoice)
    return outcome
