"""Scopes as they are shown: repositories and branches with their names at GitHub, however a client wrote them.

A repository that left, or a branch that is no longer watched, has the name that was known last. What nothing is known
of stays as it was written.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, or_, select

from models.queries import any_of
from models.repositories import Repository, WatchedBranch
from services.core.lookups import find_repositories
from services.core.unit_of_work import UnitOfWork

Scope = Mapping[str, Any]
Key = str | tuple[str, str]
"""A branch by its id, or by the id of its repository and its name."""
Named = tuple[str, str, str]
"""A branch by what `_BRANCH` lists."""

_BRANCH = ("branchId", "repository", "branch")


def named_scope(uow: UnitOfWork, scope: Scope) -> dict[str, Any]:
    """Return a scope as it is shown."""
    return named_scopes(uow, [scope])[0]


def named_scopes(uow: UnitOfWork, scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    """Return scopes as they are shown; the number of queries does not depend on how many there are."""
    references = {reference for scope in scopes for reference in _references(scope)}
    found = find_repositories(uow, references, covered=False) if references else {}
    single = [scope for scope in scopes if scope["type"] == "branch"]
    ids = {scope["branchId"] for scope in single if "branchId" in scope}
    pairs = {
        (found[scope["repository"]].id, scope["branch"])
        for scope in single
        if "branchId" not in scope and scope["repository"] in found
    }
    branches = _branches(uow, ids, pairs) if ids or pairs else {}
    return [_shown(scope, found, branches) for scope in scopes]


def _references(scope: Scope) -> Sequence[str]:
    """Return the references to repositories in a scope."""
    if scope["type"] == "repositories":
        return [*scope["repositories"]]
    return [scope["repository"]] if scope["type"] == "branch" and "branchId" not in scope else []


def _branches(uow: UnitOfWork, ids: Collection[str], pairs: Collection[tuple[str, str]]) -> dict[Key, Named]:
    """Return branches, watched or not, by their ids, and by their repository's id and name."""
    by_name = and_(
        WatchedBranch.repository_id == any_of({repository_id for repository_id, _ in pairs}),
        WatchedBranch.name == any_of({name for _, name in pairs}),
    )
    query = (
        select(WatchedBranch.id, Repository.id, Repository.owner, Repository.name, WatchedBranch.name)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(WatchedBranch.organization_id == uow.organization, or_(WatchedBranch.id == any_of(ids), by_name))
    )
    found: dict[Key, Named] = {}
    for branch_id, repository_id, owner, name, branch in uow.session.execute(query):
        found[branch_id] = found[repository_id, branch] = (branch_id, f"{owner}/{name}", branch)
    return found


def _shown(scope: Scope, repositories: Mapping[str, Repository], branches: Mapping[Key, Named]) -> dict[str, Any]:
    if scope["type"] == "repositories":
        names = [repositories[each].full_name if each in repositories else each for each in scope["repositories"]]
        return {**scope, "repositories": list(dict.fromkeys(names))}
    if scope["type"] != "branch":
        return dict(scope)
    if "branchId" in scope:
        found = branches.get(scope["branchId"])
    else:
        repository = repositories.get(scope["repository"])
        if repository is None:
            return dict(scope)
        scope = {**scope, "repository": repository.full_name}
        found = branches.get((repository.id, scope["branch"]))
    return {**scope, **dict(zip(_BRANCH, found, strict=True))} if found else dict(scope)
