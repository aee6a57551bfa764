"""From an HTTP answer to its JSON, or to the one error that it stands for.

Sources: GitHub's pages "Rate limits for the REST API" and "Rate limits and query limits for the GraphQL API", and its
OpenAPI description for the statuses. A primary limit says `x-ratelimit-remaining: 0`; a secondary one has
`retry-after` or says so in words, with status 403 or 429 alike, so the status alone decides nothing.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.transport import Answer, unavailable


@contextmanager
def reading() -> Iterator[None]:
    """Turn a missing field or a wrong type in GitHub's JSON into the error of an answer that cannot be read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise unavailable("sent an answer that cannot be read", maybe_applied=False) from None


def read_object(answer: Answer, *, safe: bool = True) -> dict[str, Any]:
    """Return the JSON object of a successful answer; raises the error that any other answer stands for."""
    payload = _read(answer, safe=safe)
    if not isinstance(payload, dict):
        raise unavailable("sent no JSON object", maybe_applied=not safe, status=answer.status)
    return payload


def read_list(answer: Answer) -> list[Any]:
    """Return the JSON list of a successful answer; raises the error that any other answer stands for."""
    payload = _read(answer, safe=True)
    if not isinstance(payload, list):
        raise unavailable("sent no JSON list", maybe_applied=False, status=answer.status)
    return payload


def read_nothing(answer: Answer) -> None:
    """Accept a successful answer without a body (204)."""
    _read(answer, safe=False)


def _read(answer: Answer, *, safe: bool) -> Any:
    if 200 <= answer.status < 300:
        return answer.payload
    raise refusal(answer, safe=safe)


def refusal(answer: Answer, *, safe: bool = True) -> GitHubError:
    """Return the error that a non-2xx answer stands for."""
    status, said = answer.status, answer.message
    if status in {403, 429}:
        return _forbidden(answer)
    if status == 401:
        return GitHubError(ErrorKind.UNAVAILABLE, _told("GitHub refused the credentials", said), status=status)
    if status in {404, 410}:
        return GitHubError(
            ErrorKind.NOT_FOUND, _told("GitHub has no such object, or shows it not", said), status=status
        )
    if status == 451:
        return GitHubError(ErrorKind.PERMISSION, _told("GitHub withholds this object", said), status=status)
    if 400 <= status < 500:
        return GitHubError(ErrorKind.REJECTED, _told(f"GitHub rejected the call ({status})", said), status=status)
    error = unavailable(f"answered {status}", maybe_applied=status >= 500 and not safe, status=status)
    error.retry_after = _retry_after(answer.headers)
    return error


def _forbidden(answer: Answer) -> GitHubError:
    status, said = answer.status, answer.message
    if is_secondary(said) or "secondary-rate-limit" in _documentation(answer):
        return _secondary(answer)
    if answer.headers.get("x-ratelimit-remaining") == "0" or said.startswith("API rate limit"):
        return primary_limit(answer)
    if status == 429 or "retry-after" in answer.headers:
        return _secondary(answer)
    if "suspended" in said:
        return GitHubError(ErrorKind.INSTALLATION_REMOVED, "The installation is suspended", status=status)
    accepted = answer.headers.get("x-accepted-github-permissions", "")[:200]
    needs = f" (it takes {accepted})" if accepted else ""
    return GitHubError(ErrorKind.PERMISSION, _told(f"GitHub denied the permission{needs}", said), status=status)


def _secondary(answer: Answer) -> GitHubError:
    return GitHubError(
        ErrorKind.SECONDARY_RATE_LIMIT,
        "GitHub asked for fewer calls (secondary rate limit)",
        retry_after=_retry_after(answer.headers),
        status=answer.status,
    )


def primary_limit(answer: Answer) -> GitHubError:
    """Return the error of a spent hourly allowance, with the seconds until it is filled again."""
    reset = answer.headers.get("x-ratelimit-reset", "")
    seconds = int(reset) - server_time(answer.headers) if reset.isascii() and reset.isdigit() else None
    return GitHubError(
        ErrorKind.RATE_LIMIT,
        "GitHub's hourly allowance for this installation is spent",
        retry_after=max(seconds, 1.0) if seconds is not None else _retry_after(answer.headers),
        status=answer.status,
    )


def secondary_limit(answer: Answer) -> GitHubError:
    """Return the error of a burst, with the seconds that GitHub asks for, if it does."""
    return _secondary(answer)


def is_secondary(message: str) -> bool:
    """Tell whether GitHub's words mean the secondary limit."""
    lowered = message.lower()
    return "secondary rate limit" in lowered or "abuse detection" in lowered


def server_time(headers: Mapping[str, str]) -> float:
    """Return GitHub's own clock (Unix seconds) from the `Date` header, or ours where there is none.

    Differences between two of GitHub's times are right even on a machine whose clock is wrong.
    """
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return time.time()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _documentation(answer: Answer) -> str:
    found = answer.payload.get("documentation_url") if isinstance(answer.payload, dict) else None
    return found if isinstance(found, str) else ""


def _told(sentence: str, said: str) -> str:
    return f"{sentence}: {said}" if said else sentence
