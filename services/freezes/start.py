"""Starting freezes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import text

from models.checks import mark_dirty
from models.freezes import Freeze
from models.queries import lock_coverage
from rules.errors import Detail, ServiceError, errors_of, field_error, merge_errors
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason, public_text
from rules.freezes.scope import OPEN_ENDED
from rules.ids import id_of_freeze, id_of_target, new_id
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.frozen_branch_requests import request_frozen_rulesets
from services.freezes.scope_names import named_scope
from services.freezes.scopes import resolve_targets


@dataclass(frozen=True, slots=True)
class NewFreeze:
    """The freeze that a client, a schedule or an operator wants."""

    scope: dict[str, Any]
    reason: str
    ends_at: datetime | None = None
    exceptions_allowed: bool = True
    exception_rules_allowed: bool = field(default=True, kw_only=True)
    public_text: str | None = None
    previewed_repo_count: int | None = None
    impact_acknowledged: bool = False
    source: str = "manual"
    schedule_id: str | None = None
    occurrence_id: str | None = None
    seconds_late: int | None = None
    """How long after the start of its window a schedule starts the freeze; None: in time."""


def start(uow: UnitOfWork, wanted: NewFreeze, *, max_targets: int) -> Freeze:
    """Start a freeze now on every branch of its scope.

    Raise one error for all invalid properties, with the code of the first: what resolving a scope raises,
    `no_targets_in_scope`, `reason_required`, `invalid_parameter` (an end that is not in the future),
    `impact_preview_required`; or `too_many_targets`.

    A schedule's freeze starts without a client: references of its scope that no longer exist are ignored, an open-ended
    scope need not reach a branch yet, and branches beyond `max_targets` follow in batches
    (`targets.add_remaining_targets`).
    """
    scheduled = wanted.source == "schedule"
    lock_coverage(uow.session, uow.organization, exclusive=False)
    problems = errors_of(
        partial(checked_reason, wanted.reason),
        partial(require_future, uow, wanted.ends_at),
        partial(_require_preview, wanted),
    )
    try:
        resolved = resolve_targets(uow, wanted.scope, stored=scheduled)
    except ServiceError as error:
        raise (merge_errors([error, *problems]) if error.details else error) from None
    if problems:
        raise merge_errors(problems)
    if len(resolved.branches) > max_targets and not scheduled:
        raise ServiceError(
            "too_many_targets",
            f"The scope reaches {len(resolved.branches)} watched branches; one freeze request takes {max_targets}.",
        )
    freeze = _insert(uow, wanted, checked_reason(wanted.reason))
    freeze.targets_pending = len(resolved.branches) > max_targets
    add_targets(uow, freeze, resolved.ids[:max_targets])
    uow.audit(
        "freeze.started",
        ("freeze", freeze.id, freeze.reason),
        before=None,
        after={
            "scope": named_scope(uow, freeze.scope),
            "endsAt": freeze.ends_at,
            "exceptionsAllowed": freeze.exceptions_allowed,
            "exceptionRulesAllowed": freeze.exception_rules_allowed,
        }
        | ({"publicText": freeze.public_text} if freeze.public_text else {}),
        targets=len(resolved.branches),
        previewedRepoCount=freeze.previewed_repo_count,
        impactAcknowledged=freeze.impact_acknowledged,
        **_window(wanted),
    )
    return freeze


def _window(wanted: NewFreeze) -> dict[str, Any]:
    """Return what the audit says of the window that a freeze is started for."""
    if wanted.occurrence_id is None:
        return {}
    of = {"scheduleId": wanted.schedule_id, "occurrenceId": wanted.occurrence_id}
    return of if wanted.seconds_late is None else {**of, "late": wanted.seconds_late}


def _insert(uow: UnitOfWork, wanted: NewFreeze, reason: str) -> Freeze:
    freeze = Freeze(
        id=new_id("frz") if wanted.occurrence_id is None else id_of_freeze(wanted.occurrence_id),
        organization_id=uow.organization,
        reason=reason,
        public_text=public_text(wanted.public_text),
        scope=wanted.scope,
        source=wanted.source,
        started_at=uow.now,
        ends_at=wanted.ends_at,
        exceptions_allowed=wanted.exceptions_allowed,
        exception_rules_allowed=wanted.exception_rules_allowed,
        previewed_repo_count=wanted.previewed_repo_count,
        impact_acknowledged=wanted.impact_acknowledged,
        schedule_id=wanted.schedule_id,
        occurrence_id=wanted.occurrence_id,
        created_by=uow.actor.as_json(),
        claimed_by=uow.caller.claimed_by,
    )
    uow.session.add(freeze)
    uow.session.flush()
    return freeze


def checked_reason(reason: str, code: str = "reason_required") -> str:
    """Return the reason without surrounding white space; raise `code` if it is then too short."""
    trimmed = reason.strip()
    if not is_reason(trimmed):
        message = f"must have at least {MIN_REASON_LENGTH} visible characters"
        raise field_error("/reason", message, message=f"The reason {message}.", code=code)
    return trimmed


def require_future(uow: UnitOfWork, end: datetime | None, name: str = "endsAt") -> None:
    """Raise `invalid_parameter` for an end, the property `name` of a body, that is not in the future."""
    if end is not None and end <= uow.now:
        raise field_error(f"/{name}", "must be in the future")


def _require_preview(wanted: NewFreeze) -> None:
    if wanted.source != "manual" or wanted.scope["type"] not in OPEN_ENDED:
        return
    if wanted.previewed_repo_count is None and not wanted.impact_acknowledged:
        raise ServiceError(
            "impact_preview_required",
            "A freeze of an organisation or a glob requires a preview: send previewedRepoCount from "
            "POST /v1/scope/preview, or impactAcknowledged: true.",
            details=(
                Detail("/previewedRepoCount", "is required, or impactAcknowledged: true", "impact_preview_required"),
            ),
        )


def target_ids(freeze: Freeze, branch_ids: Iterable[str]) -> list[str]:
    """Return the ids of the targets of a freeze on these branches; those of a window are known before it begins."""
    if freeze.occurrence_id is None:
        return [new_id("tgt") for _ in branch_ids]
    return [id_of_target(freeze.id, branch_id) for branch_id in branch_ids]


def add_targets(uow: UnitOfWork, freeze: Freeze, branch_ids: list[str]) -> None:
    """Add the branches to the freeze, and have their verdicts and the rulesets of their repositories written."""
    insert_targets(uow, freeze, branch_ids)
    request_frozen_rulesets(uow, branch_ids)


def insert_targets(uow: UnitOfWork, freeze: Freeze, branch_ids: list[str]) -> None:
    """Add the branches to the freeze, and have the reconciler evaluate them at once."""
    mark_dirty(uow.session, branch_ids, uow.now)
    uow.session.execute(
        text(
            "INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, generation) "
            "SELECT new.id, :organization, :freeze, c.branch_id, c.wanted_generation "
            "FROM unnest(CAST(:ids AS text[]), CAST(:branches AS text[])) AS new (id, branch_id) "
            "JOIN checks c ON c.branch_id = new.branch_id "
            "ON CONFLICT (freeze_id, branch_id) DO NOTHING"
        ),
        {
            "organization": uow.organization,
            "freeze": freeze.id,
            "ids": target_ids(freeze, branch_ids),
            "branches": branch_ids,
        },
    )
    uow.wake("reconcile")
