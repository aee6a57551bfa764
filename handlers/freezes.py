"""Operations of the tag Freezes."""

from datetime import datetime
from typing import Any

from rules.freezes.limits import FreezeLimits
from schemas.replies import LastingReply
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
from services.freezes import end, extension, lift_preview, scopes, start, targets, views
from services.freezes import state as freeze_state


def preview_scope(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Resolve a scope without creating a freeze."""
    return scopes.preview(uow, body["scope"])


def create_freeze(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Start a freeze."""
    wanted = start.NewFreeze(**body)
    freeze = start.start(uow, wanted, max_targets=uow.ports[FreezeLimits].max_targets)
    return views.view_with_others(uow, freeze, "already_frozen")


def list_freezes(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List freezes, most recently started first."""
    return views.list_freezes(uow, views.FreezeFilters(**filters), cursor, limit)


def get_freeze(uow: UnitOfWork, freeze_id: str) -> object:
    """Get a freeze, in force or ended."""
    return views.show(uow, freeze_id)


def list_freeze_targets(uow: UnitOfWork, freeze_id: str, state: str | None, cursor: str | None, limit: int) -> Page:
    """List the branches that a freeze covers."""
    return targets.list_targets(uow, freeze_id, state, cursor, limit)


def lift_freeze(uow: UnitOfWork, freeze_id: str, body: dict[str, Any] | None) -> object:
    """End a freeze."""
    return views.view_with_others(uow, end.lift(uow, freeze_id, (body or {}).get("reason")), "still_frozen")


def preview_lift(uow: UnitOfWork, freeze_id: str) -> object:
    """Preview a lift."""
    return lift_preview.preview(uow, freeze_id)


def lift_freezes(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """End all freezes inside a scope."""
    return end.lift_matching(uow, body["scope"], body.get("reason"))


def extend_freeze(uow: UnitOfWork, freeze_id: str, body: dict[str, Any]) -> object:
    """Move the end of a freeze."""
    ends_at: datetime | None = body["ends_at"]
    return views.view(uow, extension.extend(uow, freeze_id, ends_at))


def thaw_override_freeze(uow: UnitOfWork, freeze_id: str, body: dict[str, Any]) -> object:
    """End the freeze of a schedule inside its window."""
    return views.view_with_others(uow, end.override(uow, freeze_id, body["reason"]), "still_frozen")


def retry_freeze(uow: UnitOfWork, freeze_id: str) -> object:
    """Retry the failed targets of a freeze."""
    return views.view(uow, targets.retry(uow, freeze_id))


async def get_freeze_state(
    context: ReadContext,
    repo: str | None,
    branch: str | None,
    branch_id: str | None,
    organization: str | None,
) -> object:
    """Return whether a repository, a branch or the organisation is frozen."""
    state, until = await freeze_state.get_state(context, repo, branch, branch_id, organization)
    return LastingReply(state, until)
