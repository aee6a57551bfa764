"""What an error of GitHub means for the job that called it, and for all other jobs of the same installation."""

from datetime import timedelta

from integrations.github import INACTIVE_INSTALLATION, ErrorKind, GitHubError
from integrations.github.errors import CODES
from services.core.database_identity import is_confirmed
from services.core.unit_of_work import UnitOfWork
from services.github_access.pauses import pause_installation, pause_left


class ThrottledError(GitHubError):
    """A call was not made: the installation is paused, or the background share of its rate limit is used up."""

    def __init__(self, message: str, wait: timedelta) -> None:
        super().__init__(ErrorKind.RATE_LIMIT, message, retry_after=wait.total_seconds())


class WithheldError(GitHubError):
    """Nothing was sent that could release a freeze: the database was restored, and the restore is not confirmed."""

    def __init__(self) -> None:
        super().__init__(
            ErrorKind.WITHHELD,
            "The database of the service was restored from a backup. Until its operator confirms that "
            "(`python -m app restore`), blocked merges stay blocked, and rules at GitHub stay as they are.",
        )


RATE_LIMITS = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT})
RATE_LIMIT_CODES = frozenset(CODES[kind] for kind in RATE_LIMITS)
"""Their codes: a branch with one of them waits, and has not failed."""
DEFAULT_PAUSE = 60.0
"""Seconds, where GitHub limits us and does not say for how long."""


def incomplete_error() -> GitHubError:
    """Return the error of a branch that was not written for no other known reason."""
    return GitHubError(ErrorKind.UNAVAILABLE, "The pass ended before this branch was written", maybe_applied=True)


def retryable(error: GitHubError | None) -> GitHubError | None:
    """Return a failure to read the merge queue if it can be retried.

    Without the permission to read it, its entries get no check of ours and stay blocked: nothing to retry.
    """
    return error if error is not None and error.transient else None


def is_installation_wide(error: GitHubError) -> bool:
    """True if the error concerns the whole installation, so that further calls are useless or forbidden."""
    return error.kind in RATE_LIMITS | INACTIVE_INSTALLATION | {ErrorKind.APP_REFUSED}


def require_no_pause(uow: UnitOfWork, installation_id: int) -> None:
    """Raise `ThrottledError` while an installation is paused."""
    raise_while_paused(pause_left(uow, installation_id))


def raise_while_paused(left: timedelta) -> None:
    """Raise `ThrottledError` unless nothing is left of a pause."""
    if left > timedelta(0):
        raise ThrottledError("GitHub asked this installation to wait", left)


def require_confirmed(uow: UnitOfWork) -> None:
    """Raise `WithheldError` while the database counts as restored; read before rules are written."""
    if not is_confirmed(uow.session):
        raise WithheldError


def pause_when_limited(uow: UnitOfWork, installation_id: int, error: GitHubError | None) -> None:
    """Pause an installation whose rate limit was met, for as long as GitHub says.

    Not after a `ThrottledError`: verdicts may still be written.
    """
    if error is not None and error.kind in RATE_LIMITS and not isinstance(error, ThrottledError):
        seconds = DEFAULT_PAUSE if error.retry_after is None else error.retry_after
        pause_installation(uow, installation_id, uow.now + timedelta(seconds=seconds), refused=True)
