"""Invoices beside those of a period: paid later, voided, given up, made of pending items."""

import pytest
import stripe

from tests.tools.fake_stripe.shop import FAILING, Shop


class TestInvoices:
    def test_open_invoice_is_paid_voided_or_given_up(self, shop: Shop) -> None:
        invoice = str(shop.subscribe(card=FAILING).latest_invoice)
        with pytest.raises(stripe.CardError):
            shop.api.invoices.pay(invoice)
        assert shop.api.invoices.mark_uncollectible(invoice).status == "uncollectible"
        assert shop.api.invoices.pay(invoice, {"paid_out_of_band": True}).status == "paid"
        with pytest.raises(stripe.InvalidRequestError, match="already paid"):
            shop.api.invoices.pay(invoice)
        other = str(shop.subscribe(card=FAILING).latest_invoice)
        assert shop.api.invoices.void_invoice(other).status == "void"
        with pytest.raises(stripe.InvalidRequestError, match="no longer be paid"):
            shop.api.invoices.pay(other)
        assert {each.status for each in shop.api.invoices.list({"status": "void"}).data} == {"void"}

    def test_invoice_is_made_of_pending_items(self, shop: Shop) -> None:
        customer = shop.customer("pm_card_visa")
        shop.api.invoice_items.create({"customer": customer.id, "amount": 700, "currency": "eur", "description": "Mug"})
        invoice = shop.api.invoices.create({"customer": customer.id})
        assert (invoice.status, invoice.total, invoice.number) == ("draft", 700, None)
        done = shop.api.invoices.finalize_invoice(invoice.id)
        assert (done.status, done.amount_due) == ("open", 700)
        assert done.number is not None
        assert [line.description for line in shop.api.invoices.line_items.list(invoice.id).data] == ["Mug"]
        [item] = shop.api.invoice_items.list({"customer": customer.id}).data
        assert shop.api.invoice_items.retrieve(item.id).invoice == invoice.id
        assert shop.api.invoices.pay(invoice.id).status == "paid"
        with pytest.raises(stripe.InvalidRequestError, match="already finalized"):
            shop.api.invoices.finalize_invoice(invoice.id)
