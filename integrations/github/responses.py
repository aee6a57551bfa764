"""Conversion of an HTTP response to its JSON or to a `GitHubError`.

Sources: GitHub's pages "Rate limits for the REST API" and "Rate limits and query limits for the GraphQL API", and its
OpenAPI description for the statuses. A primary limit has `x-ratelimit-remaining: 0`; a secondary one has
`retry-after` or a message that names it. Both come with status 403 or 429, so the status alone is not enough.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from requests.utils import parse_header_links

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.transport import Response, unavailable

_SUSPENDED = "The GitHub App is suspended there. An owner of the account can unsuspend it in its settings at GitHub"


@contextmanager
def parsing() -> Iterator[None]:
    """Turn a missing field or a wrong type in GitHub's JSON into a `GitHubError` (unavailable)."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise unavailable("sent an unreadable response", maybe_applied=False) from None


def read_object(response: Response, *, safe: bool = True) -> dict[str, Any]:
    """Return the JSON object of a successful response. Raise `GitHubError` for any other response."""
    payload = _payload_of(response, safe=safe)
    if not isinstance(payload, dict):
        raise unavailable("sent a response that is not a JSON object", maybe_applied=not safe, status=response.status)
    return payload


def read_list(response: Response) -> list[Any]:
    """Return the JSON list of a successful response. Raise `GitHubError` for any other response."""
    payload = _payload_of(response, safe=True)
    if not isinstance(payload, list):
        raise unavailable("sent a response that is not a JSON list", maybe_applied=False, status=response.status)
    return payload


def next_page(response: Response) -> str | None:
    """Return the URL of the next page from the `Link` header, or None on the last page."""
    for link in parse_header_links(response.headers.get("link", "")):
        if link.get("rel") == "next":
            return str(link["url"])
    return None


def require_success(response: Response) -> None:
    """Accept a successful response without a body (204). Raise `GitHubError` for any other response."""
    _payload_of(response, safe=False)


def _payload_of(response: Response, *, safe: bool) -> Any:
    if 200 <= response.status < 300:
        return response.payload
    raise error_of(response, safe=safe)


def error_of(response: Response, *, safe: bool = True) -> GitHubError:
    """Return the error for a non-2xx response."""
    status, message = response.status, response.message
    if status in {403, 429}:
        return _forbidden(response)
    if status == 401:
        return GitHubError(ErrorKind.UNAVAILABLE, _join("GitHub refused the credentials", message), status=status)
    if status in {404, 410}:
        return GitHubError(
            ErrorKind.NOT_FOUND, _join("GitHub has no such object, or does not show it", message), status=status
        )
    if status == 451:
        return GitHubError(ErrorKind.PERMISSION, _join("GitHub withholds this object", message), status=status)
    if 400 <= status < 500:
        return GitHubError(ErrorKind.REJECTED, _join(f"GitHub rejected the call ({status})", message), status=status)
    error = unavailable(f"responded with status {status}", maybe_applied=status >= 500 and not safe, status=status)
    error.retry_after = _retry_after(response.headers)
    return error


def _forbidden(response: Response) -> GitHubError:
    status, message = response.status, response.message
    if is_secondary(message) or "secondary-rate-limit" in _documentation(response):
        return secondary_limit(response)
    if response.headers.get("x-ratelimit-remaining") == "0" or message.startswith("API rate limit"):
        return primary_limit(response)
    if status == 429 or "retry-after" in response.headers:
        return secondary_limit(response)
    if "suspended" in message:
        return GitHubError(ErrorKind.INSTALLATION_SUSPENDED, _SUSPENDED, status=status)
    accepted = response.headers.get("x-accepted-github-permissions", "")[:200]
    needs = f" (required: {accepted})" if accepted else ""
    return GitHubError(ErrorKind.PERMISSION, _join(f"GitHub denied the permission{needs}", message), status=status)


def primary_limit(response: Response) -> GitHubError:
    """Return the error for an exhausted hourly limit, with the seconds until it resets."""
    reset = response.headers.get("x-ratelimit-reset", "")
    seconds = int(reset) - server_time(response.headers) if reset.isascii() and reset.isdigit() else None
    return GitHubError(
        ErrorKind.RATE_LIMIT,
        "GitHub's hourly rate limit for this installation is exhausted",
        retry_after=max(seconds, 1.0) if seconds is not None else _retry_after(response.headers),
        status=response.status,
    )


def secondary_limit(response: Response) -> GitHubError:
    """Return the error for the secondary rate limit, with GitHub's `retry-after` if there is one."""
    return GitHubError(
        ErrorKind.SECONDARY_RATE_LIMIT,
        "GitHub's secondary rate limit was exceeded",
        retry_after=_retry_after(response.headers),
        status=response.status,
    )


def is_secondary(message: str) -> bool:
    """True if GitHub's message names the secondary rate limit."""
    lowered = message.lower()
    return "secondary rate limit" in lowered or "abuse detection" in lowered


def server_time(headers: Mapping[str, str]) -> float:
    """Return GitHub's clock (Unix seconds) from the `Date` header, or ours if the header is missing.

    Intervals between two of GitHub's times are right even if the local clock is wrong.
    """
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return time.time()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _documentation(response: Response) -> str:
    url = response.payload.get("documentation_url") if isinstance(response.payload, dict) else None
    return url if isinstance(url, str) else ""


def _join(summary: str, message: str) -> str:
    return f"{summary}: {message}" if message else summary
