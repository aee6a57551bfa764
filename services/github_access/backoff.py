"""Back-off: how long to wait before a failed call to GitHub is tried again."""

import random
from datetime import timedelta

from integrations.github import INACTIVE_INSTALLATION, ErrorKind, GitHubError
from services.core.work_queue import RetryPolicy

RETRY = RetryPolicy()
OPERATOR_RETRY_INTERVAL = timedelta(minutes=30)
APP_RETRY_INTERVAL = timedelta(seconds=45)
"""After GitHub refused the App's own credentials: no webhook reports that they work again, and until they do there is
nothing else to do for any installation."""
NEEDS_OPERATOR = frozenset(
    {
        ErrorKind.PERMISSION,
        ErrorKind.APP_REFUSED,
        ErrorKind.NOT_FOUND,
        ErrorKind.WITHHELD,
        *INACTIVE_INSTALLATION,
    }
)
"""Errors that only a person can fix: retried seldom, never given up. A webhook, a person's retry or the operator's
confirmation makes their work due at once."""


def backoff(error: GitHubError, attempts: int) -> timedelta:
    """Return how long to wait after so many failed attempts: what GitHub asks for, else exponentially longer.

    With jitter, so that branches which failed together are not retried together.
    """
    if error.retry_after is not None:
        return timedelta(seconds=error.retry_after + random.uniform(0, 1))  # noqa: S311 - spreads load, hides nothing
    if error.kind is ErrorKind.APP_REFUSED:
        return APP_RETRY_INTERVAL * random.uniform(0.5, 1)  # noqa: S311 - spreads load, hides nothing
    if error.kind in NEEDS_OPERATOR:
        return OPERATOR_RETRY_INTERVAL
    return RETRY.delay(attempts)
