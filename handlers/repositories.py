"""Operations of the tag Repositories."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.pull_requests import pull_requests
from services.repositories import enabling, repositories
from services.repository_sync import sync


def list_repositories(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List repositories, the newest here first."""
    return repositories.list_repositories(unit, repositories.RepositoryFilters(**filters), cursor, limit)


def sync_repositories(unit: Unit) -> object:
    """Have the list of repositories compared with the code host's."""
    return sync.request_sync(unit)


def enable_repositories(unit: Unit, body: dict[str, Any]) -> object:
    """Enable the repositories of a list."""
    return {"data": enabling.enable(unit, body["repositories"])}


def disable_repositories(unit: Unit, body: dict[str, Any]) -> object:
    """Disable the repositories of a list."""
    return {"data": enabling.disable(unit, body["repositories"])}


def preview_glob(unit: Unit, body: dict[str, Any]) -> object:
    """Tell which repositories patterns match."""
    return repositories.preview_glob(unit, body["patterns"])


def get_repository(unit: Unit, repo_id: str) -> object:
    """Get a repository."""
    return repositories.show(unit, repo_id)


def update_repository(unit: Unit, repo_id: str, body: dict[str, Any]) -> object:
    """Change a repository's settings."""
    return enabling.update(unit, repo_id, body["settings"])


def list_pull_requests(unit: Unit, repo_id: str, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List a repository's tracked pull requests, the highest number first."""
    return pull_requests.list_pulls(unit, repo_id, pull_requests.PullFilters(**filters), cursor, limit)


def lookup_pull_request(unit: Unit, ref: str, repo: str | None) -> object:
    """Find a pull request by its address, `owner/repo#7`, or `7`."""
    return pull_requests.look_up(unit, ref, repo)
