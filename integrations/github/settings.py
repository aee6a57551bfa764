"""What a process must know to speak as the GitHub App."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

CALL_DEADLINE_SECONDS = 20.0
"""How long one call to GitHub may take."""


def graphql_url_of(api_url: str) -> str:
    """Return the GraphQL address that belongs to a REST base.

    `https://api.github.com` has `/graphql` beside its routes; an Enterprise Server's `https://host/api/v3` has
    `https://host/api/graphql`.
    """
    base = api_url.rstrip("/")
    return base.removesuffix("/v3") + "/graphql" if base.endswith("/api/v3") else base + "/graphql"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: what a redirect or a next page must share with the configured address."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """Addresses, identity and secrets of the App; the secrets never appear in its `repr`."""

    api_url: str
    graphql_url: str
    app_id: int
    app_slug: str
    private_key: str = field(repr=False)
    """PEM, RSA."""
    webhook_secret: str = field(repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    """With these two, people can authorise what the App itself may not do."""
    app_client_id: str | None = None
    app_client_secret: str | None = field(default=None, repr=False)
    """The App's own: with these two, people can prove which installations of it they administer."""
    web_url: str = "https://github.com"
    """Where people sign in at GitHub."""
    api_version: str = "2026-03-10"
    deadline_seconds: float = CALL_DEADLINE_SECONDS
    """The whole of one call: connecting, sending, waiting, and reading the last byte of the answer."""
    check_batch: int = 25
    """Check runs written by one GraphQL request."""
    repositories_per_query: int = 25
    """Branches read by one GraphQL request."""
