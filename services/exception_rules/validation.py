"""What is wrong with a rule of exceptions; all errors are reported together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import func, select

from integrations.github import GitHubError
from models.exception_rules import ExceptionRule
from models.queries import any_of
from models.schedule_queries import existing
from models.schedules import Schedule
from rules.errors import Detail, ServiceError, errors_of, field_error, merge_errors
from rules.exceptions.language import Identities, check_allow
from services.core.unit_of_work import UnitOfWork
from services.exception_rules.identities import find_identities
from services.freezes.scopes import resolve, resolve_targets
from services.freezes.start import checked_reason


def check(
    uow: UnitOfWork, given: Mapping[str, Any], rule_id: str | None = None, *, draft: bool = False
) -> Identities | None:
    """Validate the given properties of a rule, and return whom its conditions name; None if they are not given.

    The scope of a draft may reach no branch. GitHub is asked outside of the transaction. Raise, with the rows of all
    errors: the errors of resolving a scope, `no_targets_in_scope`, `validation_failed`, `already_exists`, and what
    `find_identities` raises.
    """
    checks: dict[str, Callable[[Any], object]] = {
        "reason": lambda reason: checked_reason(reason, "validation_failed"),
        "applies_to": partial(_check_range, uow, resolve if draft else resolve_targets),
        "allow": check_allow,
    }
    errors = errors_of(*(partial(check, given[name]) for name, check in checks.items() if name in given))
    identities = None
    try:
        identities = find_identities(uow, given["allow"]) if "allow" in given else None
    except GitHubError:
        if not errors:
            raise
    except ServiceError as error:
        errors.append(error)
    if "name" in given:
        errors += errors_of(partial(require_free_name, uow, given["name"], rule_id))
    if errors:
        raise merge_errors(errors)
    return identities


def require_free_name(uow: UnitOfWork, name: str, rule_id: str | None = None) -> None:
    """Raise `already_exists` if another rule than this one has the name, in whatever case."""
    query = select(ExceptionRule.id).where(
        ExceptionRule.organization_id == uow.organization, func.lower(ExceptionRule.name) == func.lower(name)
    )
    if uow.session.scalar(query.where(ExceptionRule.id != (rule_id or "")).limit(1)) is not None:
        message = f"Another rule has the name {name!r}."
        raise field_error("/name", message, message=message, code="already_exists")


def _check_range(uow: UnitOfWork, check_scope: Callable[..., object], applies_to: Mapping[str, Any]) -> None:
    errors = errors_of(partial(check_scope, uow, applies_to["scope"]), partial(_check_schedules, uow, applies_to))
    if errors:
        error = merge_errors(errors)
        details = tuple(replace(row, path=f"/appliesTo{row.path}") for row in error.details)
        raise ServiceError(error.code, error.message, details=details)


def _check_schedules(uow: UnitOfWork, applies_to: Mapping[str, Any]) -> None:
    details = tuple(_wrong_schedules(uow, applies_to["freezes"], applies_to.get("scheduleIds")))
    if details:
        raise ServiceError(str(details[0].code), f"scheduleIds {details[0].message}.", details=details)


def _wrong_schedules(uow: UnitOfWork, freezes: str, schedule_ids: Sequence[str] | None) -> Iterator[Detail]:
    known = select(Schedule.id).where(existing(uow.organization), Schedule.id == any_of(schedule_ids or ()))
    found = set(uow.session.scalars(known)) if schedule_ids else set()
    for index, schedule_id in enumerate(schedule_ids or ()):
        if schedule_id not in found:
            message = f"names no schedule of this organisation: {schedule_id!r}"
            yield Detail(f"/scheduleIds/{index}", message, "invalid_parameter")
    if (freezes == "schedules") != (schedule_ids is not None):
        message = "is required with schedules" if schedule_ids is None else f"has no meaning with {freezes}"
        yield Detail("/scheduleIds", message, "validation_failed")
