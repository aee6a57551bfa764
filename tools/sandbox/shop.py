"""The plans of the sandbox and their prices, set up at Stripe as `python -m app billing setup` does."""

from typing import Any

from integrations.stripe import Stripe, StripeSettings
from integrations.stripe.catalogue import set_up
from rules.billing.offers import read_offers
from tools.fake_stripe.keys import SECRET_KEY

PLANS: dict[str, Any] = {
    "plans": {
        "team": {
            "taxBehavior": "exclusive",
            "month": {"EUR": 4900, "USD": 5300},
            "year": {"EUR": 49000, "USD": 53000},
        },
        "business": {
            "taxBehavior": "exclusive",
            "month": {"EUR": 19900, "USD": 21500},
            "year": {"EUR": 199000, "USD": 215000},
        },
    }
}


def set_up_shop(stripe_url: str) -> str:
    """Make products and prices that are missing, and return the id of the customer portal's configuration."""
    _changes, configuration = set_up(Stripe(StripeSettings(SECRET_KEY, api_url=stripe_url)), read_offers(PLANS))
    return configuration
