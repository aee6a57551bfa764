"""Invoices: made as drafts, finalised, collected, voided."""

from dataclasses import dataclass

from tools.fake_stripe.billing.payment_methods import Charge, charge, payment_method_of
from tools.fake_stripe.billing.periods import DAY
from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, blank


@dataclass(frozen=True, slots=True)
class Line:
    """A line before its invoice exists."""

    amount: int
    description: str
    start: int
    end: int
    price: Json | None = None
    unit_amount: int = 0
    quantity: int = 1
    subscription_item: str | None = None
    invoice_item: str | None = None
    proration: bool = False


def make_invoice(
    core: Core,
    customer: Json,
    currency: str,
    lines: list[Line],
    reason: str,
    subscription: Json | None = None,
) -> Json:
    """Add a draft."""
    now, total = core.now(customer["id"]), sum(line.amount for line in lines)
    identifier = core.store.new_id("invoice")
    invoice = core.store.add(
        "invoice",
        {
            **_empty(),
            **_amounts(total),
            **_customer_details(customer),
            "auto_advance": subscription is not None,
            "automatic_tax": _automatic_tax(subscription),
            "billing_reason": reason,
            "collection_method": subscription["collection_method"] if subscription else "charge_automatically",
            "created": now,
            "currency": currency,
            "lines": {
                "object": "list",
                "data": [_line_item(core, identifier, currency, line, subscription) for line in lines],
                "has_more": False,
                "url": f"/v1/invoices/{identifier}/lines",
            },
            "parent": _parent(subscription),
            "period_end": now,
            "period_start": now,
        },
        identifier=identifier,
    )
    if subscription:
        subscription["latest_invoice"] = identifier
    core.announce("invoice.created", invoice)
    return invoice


def _empty() -> Json:
    """Return the fields that are the same in every draft."""
    return {
        **blank("account_tax_ids application confirmation_secret custom_fields customer_account customer_shipping"),
        **blank("automatically_finalizes_at default_payment_method default_source description due_date effective_at"),
        **blank("ending_balance footer from_invoice hosted_invoice_url invoice_pdf last_finalization_error"),
        **blank("latest_revision next_payment_attempt number on_behalf_of receipt_number rendering shipping_cost"),
        **blank("shipping_details statement_descriptor status_details threshold_reason webhooks_delivered_at"),
        "account_country": "US",
        "account_name": "Simulated account",
        "attempt_count": 0,
        "attempted": False,
        "customer_tax_ids": [],
        "default_tax_rates": [],
        "discounts": [],
        "issuer": {"type": "self"},
        "livemode": False,
        "metadata": {},
        "payment_settings": blank("default_mandate payment_method_options payment_method_types"),
        "status": "draft",
        "status_transitions": blank("finalized_at marked_uncollectible_at paid_at voided_at"),
        "total_discount_amounts": [],
        "total_pretax_credit_amounts": [],
        "total_taxes": [],
    }


def _amounts(total: int) -> Json:
    """Return the amounts of a draft; there are no taxes and discounts here."""
    return {
        "amount_due": max(0, total),
        "amount_overpaid": 0,
        "amount_paid": 0,
        "amount_paid_off_stripe": 0,
        "amount_remaining": max(0, total),
        "amount_shipping": 0,
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "starting_balance": 0,
        "subtotal": total,
        "subtotal_excluding_tax": total,
        "total": total,
        "total_excluding_tax": total,
    }


def _customer_details(customer: Json) -> Json:
    """Return what a draft copies from its customer."""
    return {
        "customer": customer["id"],
        "customer_address": customer["address"],
        "customer_email": customer["email"],
        "customer_name": customer["name"],
        "customer_phone": customer["phone"],
        "customer_tax_exempt": customer["tax_exempt"],
        "test_clock": customer["test_clock"],
    }


def _parent(subscription: Json | None) -> Json | None:
    if subscription is None:
        return None
    details = {
        "metadata": dict(subscription["metadata"]),
        "subscription": subscription["id"],
        "subscription_proration_date": None,
    }
    return {"quote_details": None, "subscription_details": details, "type": "subscription_details"}


def _automatic_tax(subscription: Json | None) -> Json:
    enabled = bool(subscription and subscription["automatic_tax"]["enabled"])
    return {
        "disabled_reason": None,
        "enabled": enabled,
        "liability": {"type": "self"} if enabled else None,
        "provider": "stripe" if enabled else None,
        "status": "complete" if enabled else None,
    }


def _line_item(core: Core, invoice_id: str, currency: str, line: Line, subscription: Json | None) -> Json:
    about = {
        "invoice_item": line.invoice_item,
        "proration": line.proration,
        "proration_details": {"credited_items": None},
        "subscription": subscription["id"] if subscription else None,
    }
    of_item = line.subscription_item is not None
    priced: Json = {"price_details": None, "type": "price_details", "unit_amount_decimal": str(line.unit_amount)}
    if line.price:
        priced["price_details"] = {"price": line.price["id"], "product": line.price["product"]}
    return {
        "id": core.store.new_id("line_item"),
        "object": "line_item",
        "amount": line.amount,
        "currency": currency,
        "description": line.description,
        "discount_amounts": [],
        "discountable": not line.proration,
        "discounts": [],
        "invoice": invoice_id,
        "livemode": False,
        "metadata": {},
        "parent": {
            "invoice_item_details": None if of_item else about,
            "subscription_item_details": {**about, "subscription_item": line.subscription_item} if of_item else None,
            "type": "subscription_item_details" if of_item else "invoice_item_details",
        },
        "period": {"end": line.end, "start": line.start},
        "pretax_credit_amounts": [],
        "pricing": priced,
        "quantity": line.quantity,
        "quantity_decimal": str(line.quantity),
        "subscription": subscription["id"] if subscription else None,
        "subtotal": line.amount,
        "taxes": [],
    }


def finalize(core: Core, invoice: Json) -> None:
    """Make a draft payable: number it, apply the customer's balance. What costs nothing is paid at once."""
    if invoice["status"] != "draft":
        raise invalid("This invoice is already finalized, you can't re-finalize a non-draft invoice.")
    customer, now = core.store.objects["customer"][invoice["customer"]], core.now(invoice["customer"])
    balance, total = customer["balance"], invoice["total"]
    due = max(0, total + balance)
    customer["balance"] = balance + total - due
    number = f"{customer['invoice_prefix']}-{customer['next_invoice_sequence']:04d}"
    customer["next_invoice_sequence"] += 1
    page = f"{core.base_url}/i/{invoice['id']}"
    invoice |= {
        "amount_due": due,
        "amount_remaining": due,
        "automatically_finalizes_at": None,
        "effective_at": now,
        "ending_balance": customer["balance"],
        "hosted_invoice_url": page,
        "invoice_pdf": f"{page}/pdf",
        "number": number,
        "starting_balance": balance,
        "status": "open",
    }
    invoice["status_transitions"]["finalized_at"] = now
    core.store.changes += 1
    core.announce("invoice.finalized", invoice)
    if due == 0:
        mark_paid(core, invoice)


def mark_paid(core: Core, invoice: Json) -> None:
    """Record that an invoice is paid."""
    invoice |= {
        "amount_paid": invoice["amount_due"],
        "amount_remaining": 0,
        "attempted": True,
        "auto_advance": False,
        "next_payment_attempt": None,
        "status": "paid",
    }
    invoice["status_transitions"]["paid_at"] = core.now(invoice["customer"])
    core.store.changes += 1
    core.announce("invoice.paid", invoice)
    core.announce("invoice.payment_succeeded", invoice)


def collect(
    core: Core,
    invoice: Json,
    subscription: Json | None,
    payment_method: Json | None = None,
    *,
    is_authenticated: bool = False,
) -> Charge:
    """Charge what is due of an open invoice, and record the outcome.

    A failed renewal is tried again after `retry_days`; the first invoice of a subscription is not.
    """
    customer = core.store.objects["customer"][invoice["customer"]]
    method = payment_method or payment_method_of(core, customer, subscription)
    outcome = charge(core, method, is_authenticated=is_authenticated)
    invoice["attempt_count"] += 1
    invoice["attempted"] = True
    if outcome.is_paid:
        mark_paid(core, invoice)
        return outcome
    days, attempts = core.settings.retry_days, invoice["attempt_count"]
    retried = invoice["billing_reason"] in {"subscription_cycle", "subscription_update"} and attempts <= len(days)
    later = core.now(customer["id"]) + days[attempts - 1] * DAY if retried else None
    invoice["next_payment_attempt"] = later
    core.store.changes += 1
    if outcome.challenge:
        core.announce("invoice.payment_action_required", invoice)
    core.announce("invoice.payment_failed", invoice)
    core.announce("invoice.updated", invoice)
    return outcome


def close(core: Core, invoice: Json, status: str) -> None:
    """Void an open invoice, or mark it as uncollectible."""
    if invoice["status"] not in {"open", "uncollectible"}:
        raise invalid(f"You can only pass in open invoices. This invoice isn't open: it is {invoice['status']}.")
    moment = "voided_at" if status == "void" else "marked_uncollectible_at"
    invoice |= {"auto_advance": False, "next_payment_attempt": None, "status": status}
    invoice["status_transitions"][moment] = core.now(invoice["customer"])
    core.store.changes += 1
    core.announce("invoice.voided" if status == "void" else "invoice.marked_uncollectible", invoice)
