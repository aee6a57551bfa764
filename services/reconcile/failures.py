"""What an error of the code host means for a pass."""

from integrations.github import ErrorKind, GitHubError

LIMITS = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT})


def unfinished() -> GitHubError:
    """Return the error of a branch that nothing else is known to be wrong with."""
    return GitHubError(ErrorKind.UNAVAILABLE, "The pass ended before this branch was written", maybe_applied=True)


def lasting(error: GitHubError | None) -> GitHubError | None:
    """Return a failure to read the merge queue that is worth another try.

    Without the permission to see it, its entries get no check of ours, and so stay blocked: nothing to retry.
    """
    return error if error is not None and error.transient else None


def stops(error: GitHubError) -> bool:
    """Tell whether the error concerns the whole installation, so that going on is useless or forbidden."""
    return error.kind in LIMITS or error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.APP_REFUSED}
