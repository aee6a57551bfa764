"""Operations of the tag Branches."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.repositories import branches, remote_branches, watching


def list_repository_branches(unit: Unit, repo_id: str, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List a repository's watched branches, the one watched last first."""
    wanted = branches.BranchFilters(repo=repo_id, **filters)
    return branches.list_branches(unit, wanted, cursor, limit, operation="list_repository_branches")


def list_remote_branches(unit: Unit, repo_id: str, limit: int, cursor: str | None) -> object:
    """List a repository's branches at the code host."""
    return remote_branches.list_remote_branches(unit, repo_id, cursor, limit)


def watch_branch(unit: Unit, repo_id: str, body: dict[str, Any]) -> object:
    """Start to watch a branch."""
    return branches.view(unit, watching.watch_branch(unit, repo_id, body["name"]))


def list_branches(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the organisation's watched branches, the one watched last first."""
    return branches.list_branches(unit, branches.BranchFilters(**filters), cursor, limit)


def get_branch(unit: Unit, branch_id: str) -> object:
    """Get a watched branch."""
    return branches.show(unit, branch_id)


def update_branch(unit: Unit, branch_id: str, body: dict[str, Any]) -> object:
    """Change a watched branch's settings."""
    return branches.update(unit, branch_id, body["settings"])


def unwatch_branch(unit: Unit, branch_id: str) -> None:
    """Stop watching a branch."""
    watching.unwatch(unit, branch_id)
