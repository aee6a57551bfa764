"""Operations of the tag Repositories."""

from typing import Any

from handlers.entity_tags import tagged
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.pull_requests import forbidden, pull_requests
from services.repositories import enablement, repositories
from services.repository_sync import sync


def list_repositories(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List repositories, most recently added first."""
    return repositories.list_repositories(uow, repositories.RepositoryFilters(**filters), cursor, limit)


def sync_repositories(uow: UnitOfWork) -> object:
    """Sync the list of repositories with GitHub."""
    return sync.request_sync(uow)


def enable_repositories(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Enable the repositories of a list."""
    return {"data": enablement.enable(uow, body["repositories"])}


def disable_repositories(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Disable the repositories of a list."""
    return {"data": enablement.disable(uow, body["repositories"])}


def preview_glob(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Return the repositories that patterns match."""
    return repositories.preview_glob(uow, body["patterns"])


def get_repository(uow: UnitOfWork, repo_id: str) -> object:
    """Get a repository."""
    return tagged(repositories.show(uow, repo_id))


def update_repository(uow: UnitOfWork, repo_id: str, body: dict[str, Any], if_match: str | None) -> object:
    """Change a repository's settings."""
    return tagged(enablement.update(uow, repo_id, body.get("settings", {}), if_match))


def list_pull_requests(uow: UnitOfWork, repo_id: str, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List a repository's tracked pull requests, the highest number first."""
    return pull_requests.list_pulls(uow, repo_id, pull_requests.PullFilters(**filters), cursor, limit)


def list_forbidden_pull_requests(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the open pull requests that freezes forbid to merge."""
    return forbidden.list_forbidden(uow, forbidden.ForbiddenFilters(**filters), cursor, limit)


def lookup_pull_request(uow: UnitOfWork, ref: str, repo: str | None) -> object:
    """Find a pull request by its URL, `owner/repo#7`, or `7`."""
    return pull_requests.lookup(uow, ref, repo)
