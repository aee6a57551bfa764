"""The service's GitHub App, and the configuration that all its processes share."""

from dataclasses import dataclass

from tests.harness.app_key import make_app_key
from tools.fake_stripe.keys import SECRET_KEY

WEBHOOK_SECRET = "the fault suite's webhook secret"
STRIPE_SECRET = "whsec_of_the_fault_suite"


@dataclass(frozen=True, slots=True)
class Identity:
    """An App's public key, and the environment of the processes that are that App."""

    public_key: str
    environment: dict[str, str]


def make_identity() -> Identity:
    """Make an App."""
    key = make_app_key()
    environment = {
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_SLUG": "change-freeze",
        "GITHUB_APP_PRIVATE_KEY": key.private,
        "GITHUB_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "STRIPE_SECRET_KEY": SECRET_KEY,
        "STRIPE_WEBHOOK_SECRET": STRIPE_SECRET,
        "RATE_LIMIT_ORGANIZATION": "1000000000",
        "RATE_LIMIT_WRITES": "1000000000",
        "CURSOR_SECRET": "a secret of the fault suite",
        "SECRET_KEY": "another secret of the fault suite",
        "DATABASE_POOL_SIZE": "6",
        "LOG_LEVEL": "INFO",
    }
    return Identity(key.public, environment)
