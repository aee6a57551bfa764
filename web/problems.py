"""What is wrong with a form, by field, in the words of the page."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from rules.errors import Detail
from schemas.names import snake_case
from web.operations import OperationError

_SUBJECT = re.compile(r"([a-z]\w*([.\[]\w+\]?)* )?(?=(must|is|has|may) )")
"""Before the verb of a message: a property, as the body of the operation names it, or nothing."""
_FIRST_LETTER = re.compile(r"^[a-z](?=[a-z]* )")
"""Of a word, but not of the name of a repository."""


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
    subject = _SUBJECT.match(message)
    return Problem(field, f"{label} {message[subject.end() :]}" if subject else _FIRST_LETTER.sub(_capital, message))


def _capital(letter: re.Match[str]) -> str:
    return letter[0].upper()
