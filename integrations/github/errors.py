"""All failures of GitHub and of the connection to it, as one exception with a code of the error catalogue."""

from enum import StrEnum

from rules.errors import ServiceError


class ErrorKind(StrEnum):
    """The kind of failure, more detailed than the codes of the catalogue."""

    PERMISSION = "permission"
    """The App lacks a permission, or the account forbids the call."""
    RATE_LIMIT = "rate_limit"
    """The hourly limit of one resource (REST or GraphQL) is exhausted."""
    SECONDARY_RATE_LIMIT = "secondary_rate_limit"
    """Too many requests at once: the whole installation must pause."""
    UNAVAILABLE = "unavailable"
    """5xx, timeout, lost connection, or an unreadable response."""
    INSTALLATION_REMOVED = "installation_removed"
    """The App was uninstalled."""
    INSTALLATION_SUSPENDED = "installation_suspended"
    """The App is installed, and people at GitHub have suspended it."""
    APP_REFUSED = "app_refused"
    """GitHub does not accept this App's own credentials."""
    NOT_FOUND = "not_found"
    """The repository, branch or object does not exist, or the installation cannot see it."""
    REJECTED = "rejected"
    """GitHub rejects the request, such as a check on an unknown commit."""
    WITHHELD = "withheld"
    """Nothing was sent: the database was restored from a backup, and no operator has confirmed that yet."""


CODES = {
    ErrorKind.PERMISSION: "github_permission_denied",
    ErrorKind.RATE_LIMIT: "github_rate_limited",
    ErrorKind.SECONDARY_RATE_LIMIT: "github_secondary_rate_limit",
    ErrorKind.UNAVAILABLE: "github_unavailable",
    ErrorKind.INSTALLATION_REMOVED: "installation_removed",
    ErrorKind.INSTALLATION_SUSPENDED: "installation_suspended",
    ErrorKind.APP_REFUSED: "installation_removed",
    ErrorKind.NOT_FOUND: "repository_not_found",
    ErrorKind.REJECTED: "github_rejected",
    ErrorKind.WITHHELD: "maintenance",
}

INACTIVE_INSTALLATION = frozenset({ErrorKind.INSTALLATION_REMOVED, ErrorKind.INSTALLATION_SUSPENDED})
"""The App can do nothing in the account until people there install it again, or unsuspend it."""


class GitHubError(ServiceError):
    """A failed call to GitHub."""

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
        """The write may have been applied: read back before writing again."""
        self.status = status
        """The HTTP status, if there was a response."""

    def __repr__(self) -> str:
        return f"GitHubError({self.kind.value}, {self.message!r})"

    @property
    def transient(self) -> bool:
        """True if the same call is likely to succeed later without any change."""
        return self.kind in {
            ErrorKind.RATE_LIMIT,
            ErrorKind.SECONDARY_RATE_LIMIT,
            ErrorKind.UNAVAILABLE,
            ErrorKind.WITHHELD,
        }
