"""A stateful simulated Stripe over real HTTP, for development and tests.

`python -m tools.fake_stripe --port 9001`, or in process: `handle = serve(FakeStripe())`.
"""

from tools.fake_stripe.server import Handle, serve
from tools.fake_stripe.stripe import FakeStripe

__all__ = ["FakeStripe", "Handle", "serve"]
