"""Errors in the words of the pages: what is wrong with a form, by field, and the titles of error pages."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from rules.contract_names import snake_case
from rules.errors import Detail
from web.operations import OperationError

_SUBJECT = re.compile(r"([a-z]\w*([.\[]\w+\]?)* )?(?=(must|is|has|may) )")
"""Before the verb of a message: a property, as the body of the operation names it, or nothing."""
_FIRST_LETTER = re.compile(r"^[a-z](?=[a-z]* )")
"""Of a word, but not of the name of a repository."""


_TITLES = {
    401: "Sign in again",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    409: "Not possible now",
    410: "No longer available",
    413: "Too large",
    429: "Too many attempts",
    503: "Not available now",
}


class Problem(NamedTuple):
    """One problem of a form; `field` is empty if it concerns the whole form."""

    field: str
    message: str


def error_title(status: int) -> str:
    """Return the title of the page of an error."""
    return _TITLES.get(status, "Something went wrong" if status >= 500 else "Invalid request")


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
    subject = _SUBJECT.match(message)
    return Problem(field, f"{label} {message[subject.end() :]}" if subject else _FIRST_LETTER.sub(_capital, message))


def _capital(letter: re.Match[str]) -> str:
    return letter[0].upper()
