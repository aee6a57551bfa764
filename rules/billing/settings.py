"""What an operator chooses about plans."""

from dataclasses import dataclass
from datetime import timedelta

from rules.billing.plans import FREE


@dataclass(frozen=True, slots=True)
class BillingSettings:
    """The plan that needs no payment, and how long one goes on without it."""

    default_plan: str = FREE.id
    """The plan that organisations have at least, unless an operator grants another."""
    grace: timedelta = timedelta(days=14)
    """How long a plan goes on after a failed payment."""
