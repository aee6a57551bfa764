"""The one exception that every layer below the edge raises to refuse a request.

It carries a code of the contract's catalogue (`x-error-catalogue` in `openapi.yaml`); status, type and
documentation address follow from the code, so no layer below the edge knows HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Detail:
    """One failing field.

    `path` is a JSON Pointer into the body (`/scope/patterns/0`) or a parameter's name (`limit`).
    `extra` holds additive members of the row, such as the schedule that an overlap names.
    """

    path: str
    message: str
    code: str | None = None
    extra: dict[str, Any] | None = None


class ServiceError(Exception):
    """A refusal with a code of the catalogue, a message for people, and a row for each failing field."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: tuple[Detail, ...] = (),
        retry_after: float | None = None,
        commit_on_error: bool = False,
        secret: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.retry_after = retry_after
        """Seconds until the same request can succeed, where that is known."""
        self.commit_on_error = commit_on_error
        """What was done before the refusal is kept, because the way on that the refusal shows needs it."""
        self.secret = secret
        """Its details show a secret: a stored copy of the reply must be encrypted."""


def together(faults: Sequence[ServiceError]) -> ServiceError:
    """Return one refusal for several faults of a request: the first one's code, and the rows of all."""
    first, *others = faults
    if not others:
        return first
    more = f"{len(others)} more fault{'s'[: len(others) > 1]} in details"
    details = tuple(detail for fault in faults for detail in fault.details)
    return ServiceError(first.code, f"{first.message} ({more})", details=details)
