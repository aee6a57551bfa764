"""Stripe: a thin client of its API, and the signatures of its webhooks."""

from integrations.stripe.client import Stripe, StripeSettings
from integrations.stripe.errors import StripeError, StripeMissingError, StripeUnavailableError

__all__ = ["Stripe", "StripeError", "StripeMissingError", "StripeSettings", "StripeUnavailableError"]
