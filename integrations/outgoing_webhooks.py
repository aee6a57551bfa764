"""The client that sends outgoing webhooks."""

from integrations.guarded_https import GuardedHttps, Limits

MAX_ANSWER_BYTES = 1024
TIMEOUT = 15.0
"""Seconds for an attempt: the name, the connection and the response."""
MAX_THREADS = 32
"""More than send at once, because a name server that hangs keeps a thread beyond the time of the attempt."""


def webhook_client(*, loopback: bool = False) -> GuardedHttps:
    """Return a client; with `loopback`, for a service on one machine, it sends to that machine too."""
    return GuardedHttps(Limits(TIMEOUT, MAX_ANSWER_BYTES, MAX_THREADS), loopback)
