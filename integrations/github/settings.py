"""Settings of the GitHub App's client."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

CALL_DEADLINE_SECONDS = 10.0
"""Deadline of one call to GitHub, which itself gives up requests after ten seconds."""


def graphql_url_of(api_url: str) -> str:
    """Return the GraphQL URL that belongs to a REST base URL.

    `https://api.github.com` has `/graphql` beside its routes; an Enterprise Server's `https://host/api/v3` has
    `https://host/api/graphql`.
    """
    base = api_url.rstrip("/")
    return base.removesuffix("/v3") + "/graphql" if base.endswith("/api/v3") else base + "/graphql"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port; redirects and next pages must have those of the configured URL."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """URLs, identity and secrets of the App; secrets are hidden in `repr`."""

    api_url: str
    graphql_url: str
    app_id: int
    app_slug: str
    private_key: str = field(repr=False)
    """PEM, RSA."""
    webhook_secret: str = field(repr=False)
    previous_webhook_secret: str = field(default="", repr=False)
    """Accepted too while a new secret replaces it; empty if there is none."""
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    """OAuth client with which users authorize changes that the App itself may not make."""
    app_client_id: str | None = None
    app_client_secret: str | None = field(default=None, repr=False)
    """The App's own OAuth client, with which users prove that they administer an installation."""
    web_url: str = "https://github.com"
    """Where users sign in at GitHub."""
    api_version: str = "2026-03-10"
    deadline_seconds: float = CALL_DEADLINE_SECONDS
    """Of one whole call: connecting, sending, waiting, and reading the last byte of the response."""
    checks_per_mutation: int = 25
    """Check runs written by one GraphQL request."""
    branches_per_query: int = 25
    """Branches read by one GraphQL request."""

    @property
    def shared_deadline_seconds(self) -> float:
        """The deadline of several calls that are made together."""
        return 2 * self.deadline_seconds
