"""The exception with which every layer below the edge reports an error to the client.

It has a code of the contract's catalogue (`x-error-catalogue` in `openapi.yaml`). Status, type and documentation URL
follow from the code, so no layer below the edge knows HTTP.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Detail:
    """An error in one field.

    `path` is a JSON Pointer into the body (`/scope/patterns/0`) or the name of a parameter (`limit`).
    `extra` has additional members of the row, such as the schedule of an overlap.
    """

    path: str
    message: str
    code: str | None = None
    extra: dict[str, Any] | None = None


class ServiceError(Exception):
    """An error with a code of the catalogue, a message for people, and a row for each invalid field."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: tuple[Detail, ...] = (),
        retry_after: float | None = None,
        commit_on_error: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.retry_after = retry_after
        """Seconds until the same request may succeed, if known."""
        self.commit_on_error = commit_on_error
        """True if changes are committed in spite of the error, because the client's next step needs them."""
        self.until: datetime | None = None
        """Until when the same request fails alike, unless the version of the organisation's freezes changes."""


class MethodNotAllowedError(ServiceError):
    """The path exists, but not with this method; `allow` lists the methods that do."""

    def __init__(self, method: str, allow: str) -> None:
        super().__init__("method_not_allowed", f"{method} is not supported here; use {allow}")
        self.allow = allow


class NotAuthorizedError(Exception):
    """An authorisation at GitHub leads to nothing: title, message and status of the page that says so."""

    def __init__(self, title: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.title, self.message, self.status = title, message, status


def field_error(
    path: str, problem: str, *, message: str | None = None, code: str = "invalid_parameter"
) -> ServiceError:
    """Return an error in one field: its detail says the problem, and so does the message, if no other is given."""
    text = message or f"{path.removeprefix('/')} {problem}."
    return ServiceError(code, text, details=(Detail(path, problem, code),))


def errors_of(*checks: Callable[[], object]) -> list[ServiceError]:
    """Return the errors of the checks that fail, in their order."""
    errors = []
    for check in checks:
        try:
            check()
        except ServiceError as error:
            errors.append(error)
    return errors


def merge_errors(errors: Sequence[ServiceError]) -> ServiceError:
    """Return one error for several, with the code of the first and the details of all."""
    first, *others = errors
    if not others:
        return first
    more = f"{len(others)} more {'error' if len(others) == 1 else 'errors'} in details"
    details = tuple(detail for error in errors for detail in error.details)
    return ServiceError(first.code, f"{first.message} ({more})", details=details)
