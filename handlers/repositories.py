"""Operations of the tag Repositories."""

from typing import Any

from services import enabling, pulls, repositories, repository_sync
from services.pages import Page
from services.unit import Unit


def list_repositories(unit: Unit, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List repositories, the newest here first."""
    return repositories.list_repositories(unit, repositories.RepositoryFilters(**filters), cursor, limit)


def sync_repositories(unit: Unit) -> object:
    """Have the list of repositories compared with the code host's."""
    return repository_sync.request_sync(unit)


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
    return pulls.list_pulls(unit, repo_id, pulls.PullFilters(**filters), cursor, limit)


def lookup_pull_request(unit: Unit, ref: str, repo: str | None) -> object:
    """Find a pull request by its address, `owner/repo#7`, or `7`."""
    return pulls.look_up(unit, ref, repo)
