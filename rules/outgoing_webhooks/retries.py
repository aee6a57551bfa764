"""When a webhook that failed is sent again, and when its endpoint is disabled."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""How long to wait after each failed attempt; after one more, the message is given up."""
JITTER = 0.1
"""By which part a delay is made longer or shorter, so that what failed together is not due together."""
MAX_RETRY_AFTER = timedelta(hours=24)
MAX_FAILING = timedelta(days=5)
"""How long all attempts may fail before an endpoint is disabled."""
MAX_QUIET = timedelta(days=2)
"""Time without an attempt after which a failure counts as the first: an endpoint is not judged by what was not sent."""


def retry_at(now: datetime, failures: int, retry_after: str | None = None) -> datetime | None:
    """Return when to send again after that many failed attempts; None: never.

    `retry_after` is the header of the response: a later time than ours is obeyed, up to a day.
    """
    if failures > len(DELAYS):
        return None
    delay = DELAYS[failures - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
    return now + max(delay, min(_wanted_delay(now, retry_after), MAX_RETRY_AFTER))


def _wanted_delay(now: datetime, retry_after: str | None) -> timedelta:
    value = (retry_after or "").strip()
    if value.isascii() and value.isdecimal():
        return timedelta(seconds=min(int(value[:9]), 10**9))
    try:
        at = parsedate_to_datetime(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    except (ValueError, TypeError, IndexError, OverflowError):  # what strangers send
        return timedelta()


def failing_since(now: datetime, since: datetime | None, last_failure: datetime | None) -> datetime:
    """Return since when an endpoint fails whose attempt has failed now."""
    if since is None or last_failure is None or now - last_failure > MAX_QUIET:
        return now
    return since
