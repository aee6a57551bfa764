"""Validation of a schedule's terms; all errors are reported together."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rules.errors import ServiceError, errors_of, field_error, merge_errors
from rules.time.recurrence import LATEST, check, days
from rules.time.zones import check_zone
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve_targets
from services.freezes.start import checked_reason
from services.schedules.terms import recurrence_of, window_of


def check_terms(uow: UnitOfWork, given: Mapping[str, Any]) -> None:
    """Validate the given properties of a schedule, as they are stored.

    Raise, in the order of the contract's properties and with the rows of all errors: the errors of resolving a scope,
    `no_targets_in_scope`, `invalid_timezone`, `invalid_recurrence`, `validation_failed`.
    """
    checks: dict[str, Callable[[Any], object]] = {
        "scope": lambda scope: resolve_targets(uow, scope),
        "timezone": lambda name: check_zone(name, "/timezone"),
        "recurrence": _check_recurrence,
        "window": _check_window,
        "reason": lambda reason: checked_reason(reason, "validation_failed"),
    }
    if errors := errors_of(*(partial(check, given[name]) for name, check in checks.items() if name in given)):
        raise merge_errors(errors)


def _check_recurrence(stored: Mapping[str, Any]) -> None:
    recurrence = recurrence_of(stored)
    check(recurrence)
    if next(days(recurrence, recurrence.start_date, LATEST), None) is None:
        raise _invalid("/recurrence", "matches no day")


def _check_window(stored: Mapping[str, Any]) -> None:
    if window_of(stored).is_empty:
        raise _invalid("/window/endTime", "must be after startTime; set days if the window ends on a later day")


def _invalid(path: str, message: str) -> ServiceError:
    named = f"{path[1:].replace('/', '.')} {message}."
    return field_error(path, message, message=named, code="invalid_recurrence")
