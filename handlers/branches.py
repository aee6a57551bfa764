"""Operations of the tag Branches."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.repositories import branches, remote_branches, watches


def list_repository_branches(uow: UnitOfWork, repo_id: str, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List a repository's watched branches, most recently watched first."""
    wanted = branches.BranchFilters(repo=repo_id, **filters)
    return branches.list_branches(uow, wanted, cursor, limit, operation="list_repository_branches")


def list_remote_branches(uow: UnitOfWork, repo_id: str, limit: int, cursor: str | None) -> object:
    """List a repository's branches at GitHub."""
    return remote_branches.list_remote_branches(uow, repo_id, cursor, limit)


def watch_branch(uow: UnitOfWork, repo_id: str, body: dict[str, Any]) -> object:
    """Watch a branch."""
    return branches.view(uow, watches.watch_branch(uow, repo_id, body["name"]))


def list_branches(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the organisation's watched branches, most recently watched first."""
    return branches.list_branches(uow, branches.BranchFilters(**filters), cursor, limit)


def get_branch(uow: UnitOfWork, branch_id: str) -> object:
    """Get a watched branch."""
    return branches.show(uow, branch_id)


def update_branch(uow: UnitOfWork, branch_id: str, body: dict[str, Any]) -> object:
    """Change a watched branch's settings."""
    return branches.update(uow, branch_id, body.get("settings", {}))


def unwatch_branch(uow: UnitOfWork, branch_id: str) -> None:
    """Stop watching a branch."""
    watches.unwatch(uow, branch_id)
