"""Refusals in the words of the pages: which field is meant, and what people are told of a failure of ours."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from app.edge.errors import is_database_unavailable
from rules.errors import Detail, ServiceError

logger = logging.getLogger(__name__)


class Problem(NamedTuple):
    """What is wrong with a form, and at which field; at none where it is about the whole."""

    field: str
    message: str


def at(field: str, error: ServiceError) -> ServiceError:
    """Say at a field what is wrong with the form."""
    return ServiceError(
        error.code, error.message, details=(Detail(f"/{field}", error.message),), retry_after=error.retry_after
    )


def problems_of(error: ServiceError, labels: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return what is wrong by field; `labels` are what the fields are called on the page."""
    found = [(detail.path.removeprefix("/"), detail.message) for detail in error.details]
    return tuple(_problem(name, message, labels) for name, message in found or [("", error.message)])


def _problem(name: str, message: str, labels: Mapping[str, str]) -> Problem:
    label = labels.get(name)
    if label is None:
        return Problem("", message)
    return Problem(name, label + message.removeprefix(name) if message.startswith(f"{name} ") else message)


def as_refusal(error: Exception) -> ServiceError:
    """Return a failure of ours as what people are told of it; the log has its cause, and nothing of the form."""
    if is_database_unavailable(error):
        message = "The service cannot reach its database. Freezes stay as they are; try again in a moment."
        return ServiceError("database_unavailable", message, retry_after=1)
    logger.error("a page failed", exc_info=error)
    return ServiceError("internal_error", "Something failed on our side; freezes are unchanged.")
