"""Every way in which GitHub, or the way to it, can fail, as one exception with a code of the error catalogue."""

from enum import StrEnum

from rules.errors import ServiceError


class ErrorKind(StrEnum):
    """What went wrong, finer than the catalogue's codes, for callers that branch on it."""

    PERMISSION = "permission"
    """The App lacks a permission, or the account forbids the call."""
    RATE_LIMIT = "rate_limit"
    """The hourly allowance of one resource (REST or GraphQL) is spent."""
    SECONDARY_RATE_LIMIT = "secondary_rate_limit"
    """Too much at once: the whole installation has to be quiet for a while."""
    UNAVAILABLE = "unavailable"
    """5xx, timeout, connection lost, or an answer that cannot be read."""
    INSTALLATION_REMOVED = "installation_removed"
    """The App was uninstalled or suspended there."""
    APP_REFUSED = "app_refused"
    """GitHub does not accept this App's own credentials."""
    NOT_FOUND = "not_found"
    """The repository, branch or object does not exist, or the installation cannot see it."""
    REJECTED = "rejected"
    """GitHub understood and will not, such as a check on a commit that it does not have."""


CODES = {
    ErrorKind.PERMISSION: "github_permission_denied",
    ErrorKind.RATE_LIMIT: "github_rate_limited",
    ErrorKind.SECONDARY_RATE_LIMIT: "github_secondary_rate_limit",
    ErrorKind.UNAVAILABLE: "github_unavailable",
    ErrorKind.INSTALLATION_REMOVED: "installation_removed",
    ErrorKind.APP_REFUSED: "installation_removed",
    ErrorKind.NOT_FOUND: "repository_not_found",
    ErrorKind.REJECTED: "github_permission_denied",
}


class GitHubError(ServiceError):
    """A call to GitHub that did not do what it was asked."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry_after: float | None = None,
        maybe_applied: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(CODES[kind], message, retry_after=retry_after)
        self.kind = kind
        self.maybe_applied = maybe_applied
        """The write may have happened all the same: read back before writing again."""
        self.status = status
        """The HTTP status, where there was one."""

    def __repr__(self) -> str:
        return f"GitHubError({self.kind.value}, {self.message!r})"

    @property
    def transient(self) -> bool:
        """Whether the same call can be expected to succeed later without anybody's doing."""
        return self.kind in {ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT, ErrorKind.UNAVAILABLE}
