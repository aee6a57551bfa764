"""What the control plane can set; written in JSON with camelCase names."""

from dataclasses import dataclass, field

from tools.simulation import settings


@dataclass(slots=True)
class Settings(settings.Settings):
    """Webhooks, and what Stripe's dashboard sets for failed payments."""

    webhook_url: str | None = None
    webhook_secrets: list[str] = field(default_factory=list)  # two while one is replaced by the other
    webhooks: str = "deliver"  # or hold (until they are released), or drop
    webhook_attempts: int = 4
    webhook_retry_seconds: float = 1.0  # before the second attempt; doubles each time
    retry_days: list[int] = field(default_factory=lambda: [3, 5, 7])  # days between attempts to collect an invoice
    after_retries: str = "cancel"  # or unpaid, or past_due
    invoice_draft_seconds: int = 3600  # how long the invoice of a renewal stays a draft
