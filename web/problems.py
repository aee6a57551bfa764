"""What is wrong with a form, by field, in the words of the page."""

from collections.abc import Mapping
from typing import NamedTuple

from rules.errors import Detail
from schemas.names import snake_case
from web.operations import OperationError


class Problem(NamedTuple):
    """One problem of a form; `field` is empty if it concerns the whole form."""

    field: str
    message: str


def at_field(name: str, error: OperationError) -> OperationError:
    """Return the same error, shown at a field of the form."""
    return error.with_details([Detail(f"/{name}", error.message)])


def problems_of(error: OperationError, labels: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems of a refused form; `labels` are the fields' labels on the page by their names in the form."""
    found = [(detail.path.removeprefix("/"), detail.message) for detail in error.details]
    return tuple(_problem(name, message, labels) for name, message in found or [("", error.message)])


def _problem(name: str, message: str, labels: Mapping[str, str]) -> Problem:
    field = snake_case(name)
    label = labels.get(field)
    if label is None:
        return Problem("", message)
    return Problem(field, label + message.removeprefix(name) if message.startswith(f"{name} ") else message)
