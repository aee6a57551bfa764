"""Operations of the tag Compatibility."""

from typing import Any

from rules.errors import ServiceError
from rules.web_addresses import WebOrigin
from schemas.replies import LastingReply
from services.compatibility import accounts, branches, changes, one_off_freezes
from services.compatibility.changes import BranchChange
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork


def get_compat_branches(uow: UnitOfWork, account: str) -> object:
    """Return the branches of an account."""
    return accounts.list_branches(uow, account)


async def get_compat_branch(context: ReadContext, account: str, repository: str, branch: str) -> object:
    """Return whether a branch is frozen, and by whom."""
    state, until = await branches.show(context, account, repository, branch)
    return LastingReply(state, until)


def update_compat_branch(uow: UnitOfWork, account: str, repository: str, branch: str, body: dict[str, Any]) -> object:
    """Freeze or unfreeze a branch, and let pull requests through."""
    return changes.change(uow, account, repository, branch, BranchChange(**body))


def create_compat_scheduled_freeze(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Plan a freeze of a branch."""
    starts_at, ends_at = body["one_off_freeze_at"], body["one_off_unfreeze_at"]
    return one_off_freezes.create(uow, body["account"], body["repository"], body["branch"], starts_at, ends_at)


def generate_compat_access_token(uow: UnitOfWork) -> None:
    """Refuse to make a token."""
    raise ServiceError(
        "compat_feature_removed",
        "Access tokens are not made here any more. Have a signed-in owner or admin create an API key, at "
        f"{uow.ports[WebOrigin].url}/settings/keys or with POST /v1/api-keys.",
    )
