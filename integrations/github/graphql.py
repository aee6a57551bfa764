"""Reading GraphQL answers: what failed as a whole, and what failed below one alias.

GitHub answers 200 to nearly everything. An error names its place by `path`; one without a path, or above all aliases,
concerns everything that came back null. Type names vary (`RATE_LIMIT` and `RATE_LIMITED` have both been seen), and a
timed-out query has no type at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integrations.github.answers import is_secondary, primary_limit, read_object, secondary_limit
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.transport import Answer, unavailable

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
class Fault:
    """One entry of `errors`: where (empty for nowhere in particular) and what."""

    path: tuple[str | int, ...]
    error: GitHubError


@dataclass(frozen=True, slots=True)
class Data:
    """A GraphQL answer's data with its partial errors."""

    fields: Mapping[str, Any]
    faults: Sequence[Fault]

    @property
    def limits(self) -> list[GitHubError]:
        """The rate limits that cut the answer short, if any did."""
        return [fault.error for fault in self.faults if fault.error.kind in LIMITS]

    @property
    def denied(self) -> bool:
        """Whether a part was refused for want of a permission."""
        return any(fault.error.kind is ErrorKind.PERMISSION for fault in self.faults)

    def fault_at(self, *path: str | int) -> GitHubError | None:
        """Return the first error at this place, above it or below it."""
        for fault in self.faults:
            shared = min(len(fault.path), len(path))
            if fault.path[:shared] == path[:shared]:
                return fault.error
        return None


def read_data(answer: Answer, *, mutates: bool) -> Data:
    """Return the data with its partial errors; raises `GitHubError` for what concerns the whole call."""
    payload = read_object(answer, safe=not mutates)
    listed = payload.get("errors")
    errors = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    faults = [Fault(_place(entry), _limit(entry, answer) or _error(entry, mutates=mutates)) for entry in errors]
    fields = payload.get("data")
    if isinstance(fields, dict) and any(value is not None for name, value in fields.items() if name != "rateLimit"):
        return Data(fields, faults)
    whole = [fault for fault in faults if fault.error.kind in LIMITS] or [fault for fault in faults if not fault.path]
    if whole:
        raise whole[0].error
    if isinstance(fields, dict):
        return Data(fields, faults)
    if is_secondary(answer.message):
        raise secondary_limit(answer)
    raise faults[0].error if faults else unavailable("sent no data", maybe_applied=mutates, status=answer.status)


def _limit(entry: Mapping[str, Any], answer: Answer) -> GitHubError | None:
    message = str(entry.get("message") or "")
    if is_secondary(message):
        return secondary_limit(answer)
    if entry.get("type") in _RATE_LIMITS or message.startswith("API rate limit"):
        return primary_limit(answer)
    return None


def _place(entry: Mapping[str, Any]) -> tuple[str | int, ...]:
    path = entry.get("path")
    return tuple(part for part in path if isinstance(part, str | int)) if isinstance(path, list) else ()


def _error(entry: Mapping[str, Any], *, mutates: bool) -> GitHubError:
    message = str(entry.get("message") or "")[:300]
    kind = _KINDS.get(str(entry.get("type")))
    if kind is not None:
        return GitHubError(kind, f"GitHub: {message}", status=200)
    if _is_refused_document(entry):
        return GitHubError(ErrorKind.REJECTED, f"GitHub: {message}", status=200)
    return unavailable(f"failed in the middle: {message}", maybe_applied=mutates, status=200)


def _is_refused_document(entry: Mapping[str, Any]) -> bool:
    """Tell a refused document or variable from a fault of the server.

    GitHub names a broken rule of documents in `extensions.code`, and what is wrong with a variable in
    `extensions.problems`.
    """
    extensions = entry.get("extensions")
    named = isinstance(extensions, dict) and ("code" in extensions or "problems" in extensions)
    return named or str(entry.get("message") or "").startswith("Variable ")
