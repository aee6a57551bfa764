"""GraphQL responses: failures of the whole request, and partial errors below one alias.

GitHub responds with 200 in nearly all cases. An error has a `path`; one without a path, or above all aliases, concerns
everything that is null. Type names vary (`RATE_LIMIT`, `RATE_LIMITED`), and a timed-out query has no type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.responses import is_secondary, primary_limit, read_object, secondary_limit
from integrations.github.transport import Response, unavailable

_KINDS = {
    "NOT_FOUND": ErrorKind.NOT_FOUND,
    "FORBIDDEN": ErrorKind.PERMISSION,
    "INSUFFICIENT_SCOPES": ErrorKind.PERMISSION,
    "UNPROCESSABLE": ErrorKind.REJECTED,
    "ARGUMENT_ERROR": ErrorKind.REJECTED,
}
LIMITS = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT})
_RATE_LIMITS = {"RATE_LIMIT", "RATE_LIMITED"}


@dataclass(frozen=True, slots=True)
class PartialError:
    """One entry of `errors` with its path, which may be empty."""

    path: tuple[str | int, ...]
    error: GitHubError


@dataclass(frozen=True, slots=True)
class Data:
    """The data of a GraphQL response with its partial errors."""

    fields: Mapping[str, Any]
    errors: Sequence[PartialError]

    @property
    def limits(self) -> list[GitHubError]:
        """The rate-limit errors that cut the response short."""
        return [each.error for each in self.errors if each.error.kind in LIMITS]

    @property
    def denied(self) -> bool:
        """True if a part was denied because a permission is missing."""
        return any(each.error.kind is ErrorKind.PERMISSION for each in self.errors)

    def error_at(self, *path: str | int) -> GitHubError | None:
        """Return the first error at this path, above it or below it."""
        for each in self.errors:
            shared = min(len(each.path), len(path))
            if each.path[:shared] == path[:shared]:
                return each.error
        return None


def read_data(response: Response, *, mutates: bool) -> Data:
    """Return the data with its partial errors. Raise `GitHubError` if the whole request failed."""
    payload = read_object(response, safe=not mutates)
    listed = payload.get("errors")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    errors = [
        PartialError(_path(entry), _limit(entry, response) or _error(entry, mutates=mutates)) for entry in entries
    ]
    fields = payload.get("data")
    if isinstance(fields, dict) and any(value is not None for name, value in fields.items() if name != "rateLimit"):
        return Data(fields, errors)
    whole = [each for each in errors if each.error.kind in LIMITS] or [each for each in errors if not each.path]
    if whole:
        raise whole[0].error
    if isinstance(fields, dict):
        return Data(fields, errors)
    if is_secondary(response.message):
        raise secondary_limit(response)
    raise errors[0].error if errors else unavailable("sent no data", maybe_applied=mutates, status=response.status)


def _limit(entry: Mapping[str, Any], response: Response) -> GitHubError | None:
    message = str(entry.get("message") or "")
    if is_secondary(message):
        return secondary_limit(response)
    if entry.get("type") in _RATE_LIMITS or message.startswith("API rate limit"):
        return primary_limit(response)
    return None


def _path(entry: Mapping[str, Any]) -> tuple[str | int, ...]:
    path = entry.get("path")
    return tuple(part for part in path if isinstance(part, str | int)) if isinstance(path, list) else ()


def _error(entry: Mapping[str, Any], *, mutates: bool) -> GitHubError:
    message = str(entry.get("message") or "")[:300]
    kind = _KINDS.get(str(entry.get("type")))
    if kind is not None:
        return GitHubError(kind, f"GitHub: {message}", status=200)
    if _is_invalid_document(entry):
        return GitHubError(ErrorKind.REJECTED, f"GitHub: {message}", status=200)
    return unavailable(f"failed during the request: {message}", maybe_applied=mutates, status=200)


def _is_invalid_document(entry: Mapping[str, Any]) -> bool:
    """True if GitHub rejects the document or a variable, False for a server error.

    GitHub reports an invalid document in `extensions.code`, and an invalid variable in `extensions.problems`.
    """
    extensions = entry.get("extensions")
    invalid = isinstance(extensions, dict) and ("code" in extensions or "problems" in extensions)
    return invalid or str(entry.get("message") or "").startswith("Variable ")
