"""Hosted pages: checkout, the billing portal, invoices."""

from tools.fake_stripe.pages.router import answer

__all__ = ["answer"]
