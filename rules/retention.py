"""How long an installation of the service keeps what only its operation needs."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Retention:
    """The periods that an operator may choose."""

    deliveries: timedelta = timedelta(days=7)
    """Of GitHub's webhooks: GitHub delivers one again for three days, and a delivery that is known does nothing."""
    messages: timedelta = timedelta(days=30)
    """Of mails, messages of Slack and outgoing webhooks."""
    sessions: timedelta = timedelta(days=30)
    """Of sessions and connections after their end."""
