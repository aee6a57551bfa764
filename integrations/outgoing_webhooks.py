"""The client that sends outgoing webhooks."""

from dataclasses import dataclass, field

from integrations.guarded_https import GuardedHttps, Limits

MAX_ANSWER_BYTES = 1024
TIMEOUT = 15.0
"""Seconds for an attempt: the name, the connection and the response."""
MAX_THREADS = 32
"""More than send at once, because a name server that hangs keeps a thread beyond the time of the attempt."""


@dataclass
class WebhookClient(GuardedHttps):
    """Sends them; with `loopback`, for a service on one machine, to that machine too."""

    limits: Limits = field(default_factory=lambda: Limits(TIMEOUT, MAX_ANSWER_BYTES, MAX_THREADS))
