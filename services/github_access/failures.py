"""What an error of the code host means for a pass, and for everybody who calls it for the same installation."""

from datetime import timedelta

from integrations.github import ErrorKind, GitHubError
from services.core.unit_of_work import UnitOfWork
from services.github_access.pauses import pause_installation, pause_left


class ThrottledError(GitHubError):
    """A call that was not made, for nobody is to call now, or what room there is belongs to verdicts: no refusal."""

    def __init__(self, message: str, wait: timedelta) -> None:
        super().__init__(ErrorKind.RATE_LIMIT, message, retry_after=wait.total_seconds())


LIMITS = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT})
DEFAULT_PAUSE = 60.0
"""Seconds, where the code host limits us and does not say for how long."""


def incomplete_error() -> GitHubError:
    """Return the error of a branch that nothing else is known to be wrong with."""
    return GitHubError(ErrorKind.UNAVAILABLE, "The pass ended before this branch was written", maybe_applied=True)


def retryable(error: GitHubError | None) -> GitHubError | None:
    """Return a failure to read the merge queue that is worth another try.

    Without the permission to see it, its entries get no check of ours, and so stay blocked: nothing to retry.
    """
    return error if error is not None and error.transient else None


def is_installation_wide(error: GitHubError) -> bool:
    """Tell whether the error concerns the whole installation, so that going on is useless or forbidden."""
    return error.kind in LIMITS or error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.APP_REFUSED}


def require_no_pause(uow: UnitOfWork, installation_id: int) -> None:
    """Raise `HeldBackError` while an installation is to be left alone."""
    left = pause_left(uow, installation_id)
    if left > timedelta(0):
        raise ThrottledError("GitHub asked this installation to wait", left)


def pause_when_limited(uow: UnitOfWork, installation_id: int, error: GitHubError | None) -> None:
    """Keep every worker away from an installation whose limit was met, for as long as the code host says.

    Not where we only held ourselves back: verdicts have their room all the same.
    """
    if error is not None and error.kind in LIMITS and not isinstance(error, ThrottledError):
        seconds = DEFAULT_PAUSE if error.retry_after is None else error.retry_after
        pause_installation(uow, installation_id, uow.now + timedelta(seconds=seconds))
