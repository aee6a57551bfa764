"""Finding what a request names: by id, or by `owner/name`, in path, query and body alike.

Another organisation's id is not found, exactly like an unknown one (I8).
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from models.freezes import Freeze
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.ids import has_prefix
from services.unit import Unit


def _named(reference: str) -> ColumnElement[bool]:
    if has_prefix(reference, "rep"):
        return Repository.id == reference
    return and_(
        func.lower(Repository.owner + "/" + Repository.name) == reference.lower(), Repository.removed_at.is_(None)
    )


def _repositories(unit: Unit, references: Sequence[str]) -> Select[Repository]:
    return (
        select(Repository)
        .where(Repository.organization_id == unit.organization, or_(*map(_named, references)))
        .order_by(Repository.created_at.desc())
    )


def find_repositories(unit: Unit, references: Sequence[str]) -> dict[str, Repository]:
    """Return the repositories that the references name, by reference; unknown ones are missing from the answer."""
    if not references:
        return {}
    found: dict[str, Repository] = {}
    for repository in unit.session.scalars(_repositories(unit, references)):
        found.setdefault(repository.id, repository)
        found.setdefault(repository.full_name.lower(), repository)
    keys = {reference: reference if has_prefix(reference, "rep") else reference.lower() for reference in references}
    return {reference: found[key] for reference, key in keys.items() if key in found}


def get_repository(unit: Unit, reference: str) -> Repository:
    """Return a repository by `rep_…` or `owner/name`; raises `repository_not_found`."""
    repository = find_repositories(unit, [reference]).get(reference)
    if repository is None:
        raise ServiceError("repository_not_found", f"There is no repository {reference!r} in this organisation.")
    return repository


def get_branch(unit: Unit, branch_id: str, *, lock: bool = False) -> WatchedBranch:
    """Return a watched branch by id; raises `branch_not_found`, also once it is no longer watched."""
    query = select(WatchedBranch).where(
        WatchedBranch.id == branch_id,
        WatchedBranch.organization_id == unit.organization,
        WatchedBranch.unwatched_at.is_(None),
    )
    branch = unit.session.scalar(query.with_for_update() if lock else query)
    if branch is None:
        raise ServiceError("branch_not_found", f"No watched branch of this organisation has the id {branch_id!r}.")
    return branch


def get_freeze(unit: Unit, freeze_id: str, *, lock: bool = False) -> Freeze:
    """Return a freeze by id, ended or not; raises `freeze_not_found`."""
    query = select(Freeze).where(Freeze.id == freeze_id, Freeze.organization_id == unit.organization)
    freeze = unit.session.scalar(query.with_for_update() if lock else query)
    if freeze is None:
        raise ServiceError("freeze_not_found", f"No freeze of this organisation has the id {freeze_id!r}.")
    return freeze
