"""Operations of the tag Freezes."""

from datetime import datetime
from typing import Any

from services import freeze_state, freeze_views, freezes, lifting, scopes, targets
from services.pages import Page
from services.reads import ReadContext
from services.unit import Unit


def preview_scope(unit: Unit, body: dict[str, Any]) -> object:
    """Resolve a scope without creating a freeze."""
    return scopes.preview(unit, body["scope"])


def create_freeze(unit: Unit, body: dict[str, Any]) -> object:
    """Start a freeze."""
    wanted = freezes.NewFreeze(**body)
    return freeze_views.view(unit, freezes.start(unit, wanted, most_targets=unit.surroundings.most_targets))


def list_freezes(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List freezes, the one that started last first."""
    return freeze_views.list_freezes(unit, freeze_views.FreezeFilters(**filters), cursor, limit)


def get_freeze(unit: Unit, freeze_id: str) -> object:
    """Get a freeze, in force or ended."""
    return freeze_views.show(unit, freeze_id)


def list_freeze_targets(unit: Unit, freeze_id: str, state: str | None, cursor: str | None, limit: int) -> Page:
    """List the branches that a freeze covers."""
    return targets.list_targets(unit, freeze_id, state, cursor, limit)


def lift_freeze(unit: Unit, freeze_id: str, body: dict[str, Any] | None) -> object:
    """End a freeze."""
    return freeze_views.view(unit, lifting.lift(unit, freeze_id, (body or {}).get("reason")))


def lift_freezes(unit: Unit, body: dict[str, Any]) -> object:
    """End every freeze inside a scope."""
    return lifting.lift_matching(unit, body["scope"], body.get("reason"))


def extend_freeze(unit: Unit, freeze_id: str, body: dict[str, Any]) -> object:
    """Move the end of a freeze."""
    ends_at: datetime | None = body["ends_at"]
    return freeze_views.view(unit, freezes.extend(unit, freeze_id, ends_at))


def thaw_override_freeze(unit: Unit, freeze_id: str, body: dict[str, Any]) -> object:
    """End the freeze of a schedule inside its window."""
    return freeze_views.view(unit, lifting.override(unit, freeze_id, body["reason"]))


def retry_freeze(unit: Unit, freeze_id: str) -> object:
    """Try the failed targets of a freeze again."""
    return freeze_views.view(unit, targets.retry(unit, freeze_id))


async def get_freeze_state(
    context: ReadContext,
    repo: str | None,
    branch: str | None,
    branch_id: str | None,
    organization: str | None,
) -> object:
    """Tell whether a repository, a branch or the organisation is frozen."""
    freeze_state.choose_form(repo, branch, branch_id, organization)
    if repo is not None:
        return await freeze_state.of_repository(context, repo, branch)
    if branch_id is not None:
        return await freeze_state.of_branch(context, branch_id)
    return await freeze_state.of_organization(context)
