"""Resolving a scope to the watched branches that it reaches now, and previewing it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, select

from models.due_windows import branches_of_due
from models.queries import any_of, freezable, frozen_branches, watched_branches
from models.repositories import WatchedBranch
from rules.errors import Detail, ServiceError, field_error
from rules.freezes.scope import FreezableBranch, Scope, compile_scope
from services.core.lookups import find_repositories, first_branches
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking import gaps_shown, states_shown
from services.verdicts.impact import Impact, impact_on
from services.verdicts.lights import is_unenforced

MAX_LISTED = 100
"""Repositories listed in a preview, and branches of each."""
_MAX_NAMED = 3
"""Branches or patterns that an error names."""
_MAX_UNENFORCED = 10
"""Branches that a freeze may not block, listed in a preview."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A compiled scope and the branches that it reaches."""

    scope: Scope
    branches: list[FreezableBranch]

    @property
    def ids(self) -> list[str]:
        """The ids of the branches."""
        return [branch.branch_id for branch in self.branches]


def resolve(uow: UnitOfWork, scope: dict[str, Any], *, stored: bool = False) -> Resolved:
    """Resolve the contract's scope object.

    Raise `invalid_glob`; `invalid_parameter` (with pointers) for references that this organisation does not have.
    A `stored` scope was valid when it was saved: references to what no longer exists are ignored.
    The result is empty if the scope covers no watched branch of an enabled repository.
    """
    compiled = _compile(uow, scope, stored=stored)
    found = watched_branches(uow.session, uow.organization, *_narrowed(compiled))
    return Resolved(compiled, [branch for branch in found if compiled.covers(branch)])


def _narrowed(scope: Scope) -> Iterator[ColumnElement[bool]]:
    """Yield conditions that narrow the query where a scope names its branches: there may be very many others."""
    if scope.type == "repositories":
        yield WatchedBranch.repository_id.in_(scope.repositories)
    elif scope.type == "branch":
        yield WatchedBranch.id == scope.branch_id


def resolve_targets(uow: UnitOfWork, scope: dict[str, Any], *, stored: bool = False) -> Resolved:
    """Resolve a scope that has to reach a branch. Raise what `resolve` does, and `no_targets_in_scope`.

    A stored scope that is open-ended need not: branches that match later are added to the freeze.
    """
    resolved = resolve(uow, scope, stored=stored)
    if not resolved.branches and not (stored and resolved.scope.open_ended):
        raise _no_targets(scope)
    return resolved


def _no_targets(scope: dict[str, Any]) -> ServiceError:
    """Return the error of a scope that reaches nothing; it names the branches that the scope asks for."""
    wanted = [scope["branch"]] if "branch" in scope else scope.get("branches") or []
    named = ", ".join(repr(name) for name in wanted[:_MAX_NAMED]) + (", …" if len(wanted) > _MAX_NAMED else "")
    message = "The scope reaches no watched branch of an enabled repository" + (f": none is {named}" if wanted else "")
    detail = Detail("/scope", "reaches no watched branch" + (f" {named}" if wanted else ""), "no_targets_in_scope")
    return ServiceError("no_targets_in_scope", f"{message}.", details=(detail,))


def normalize(uow: UnitOfWork, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a scope that reaches a branch in the form that all its spellings have in common.

    It has the ids of repositories, which they keep when they are renamed, and repository patterns in lower case. The
    order of patterns stays: the last one that matches wins.
    """
    if scope["type"] == "repositories":
        found = find_repositories(uow, scope["repositories"])
        return {**scope, "repositories": sorted({repository.id for repository in found.values()})}
    if scope["type"] == "branch":
        [branch] = resolve_targets(uow, scope).branches
        return {"type": "branch", "repository": branch.repository_id, "branch": branch.branch}
    if scope["type"] == "glob":
        return {**scope, "patterns": [pattern.lower() for pattern in scope["patterns"]]}
    return scope


def compile_stored(uow: UnitOfWork, scope: dict[str, Any]) -> Scope:
    """Return a stored scope compiled; references to what no longer exists are ignored."""
    return _compile(uow, scope, stored=True)


def _compile(uow: UnitOfWork, scope: dict[str, Any], *, stored: bool) -> Scope:
    if scope["type"] == "repositories":
        references = scope["repositories"]
        found = find_repositories(uow, references)
        unknown = [(index, name) for index, name in enumerate(references) if name not in found]
        if unknown and not stored:
            raise _unknown((f"/scope/repositories/{index}", f"repository {name!r}") for index, name in unknown)
        return compile_scope(scope, repositories=[repository.id for repository in found.values()])
    if scope["type"] == "branch":
        return compile_scope(scope, branch_id=_branch(uow, scope, stored=stored))
    return compile_scope(scope)


def _branch(uow: UnitOfWork, scope: dict[str, Any], *, stored: bool) -> str | None:
    """Return the id of the one branch, or None when its repository is known and the branch is not watched."""
    query = select(WatchedBranch.id).where(
        WatchedBranch.organization_id == uow.organization, WatchedBranch.unwatched_at.is_(None)
    )
    if "branchId" in scope:
        branch_id = uow.session.scalar(query.where(WatchedBranch.id == scope["branchId"]))
        if branch_id is None and not stored:
            raise _unknown([("/scope/branchId", f"watched branch {scope['branchId']!r}")])
        if "branch" in scope and not stored and _named_branch(uow, scope, query) != branch_id:
            message = f"is not the name of the watched branch {scope['branchId']!r}"
            raise field_error("/scope/branch", message, message=f"The branch {message}.")
        return branch_id
    branch_id = _named_branch(uow, scope, query)
    if branch_id is None and not stored and not find_repositories(uow, [scope["repository"]]):
        raise _unknown([("/scope/repository", f"repository {scope['repository']!r}")])
    return branch_id


def _named_branch(uow: UnitOfWork, scope: dict[str, Any], watched: Select[str]) -> str | None:
    """Return the id of the watched branch that a scope names by repository and name; None if there is none."""
    repository = find_repositories(uow, [scope["repository"]]).get(scope["repository"])
    if repository is None:
        return None
    return uow.session.scalar(
        watched.where(WatchedBranch.repository_id == repository.id, WatchedBranch.name == scope["branch"])
    )


def _unknown(references: Any) -> ServiceError:
    details = tuple(Detail(path, f"this organisation has no {what}", "invalid_parameter") for path, what in references)
    return ServiceError(
        "invalid_parameter", f"The scope references unknown resources: {details[0].message}.", details=details
    )


def preview(uow: UnitOfWork, scope: dict[str, Any]) -> dict[str, Any]:
    """Return what a freeze with this scope would reach now; changes nothing."""
    resolved = resolve(uow, scope)
    frozen = branches_of_due(uow.session, uow.organization, uow.now)
    frozen.update(uow.session.scalars(frozen_branches(uow.organization, uow.now)))
    reached = _is_reached(uow, resolved)
    impact = impact_on(uow, None if resolved.scope.reaches_all else resolved.ids)
    unenforced, first = first_branches(uow, and_(reached, is_unenforced(uow)), _MAX_UNENFORCED)
    by_repository: dict[str, list[FreezableBranch]] = {}
    for branch in resolved.branches:
        by_repository.setdefault(branch.repository_id, []).append(branch)
    shown = list(by_repository.items())[:MAX_LISTED]
    return {
        "repository_count": len(by_repository),
        "branch_count": len(resolved.branches),
        "open_pull_request_count": impact.total,
        "stopped_pull_request_count": impact.stopped,
        "frozen_branch_count": len(frozen.intersection(resolved.ids)),
        "unenforced_branch_count": unenforced,
        "unenforced_branches": first,
        "blocking": _blocking_shown(impact),
        "repositories": [
            {
                "id": repository_id,
                "full_name": branches[0].repository,
                "branches": [
                    {"id": branch.branch_id, "name": branch.branch, "frozen": branch.branch_id in frozen}
                    for branch in branches[:MAX_LISTED]
                ],
            }
            for repository_id, branches in shown
        ],
        "truncated": len(by_repository) > MAX_LISTED,
    }


def _is_reached(uow: UnitOfWork, resolved: Resolved) -> ColumnElement[bool]:
    """Return the condition of a watched branch that the scope reaches; thousands of ids are costly to send and read."""
    if resolved.scope.reaches_all:
        return and_(*freezable(uow.organization))
    return WatchedBranch.id == any_of(resolved.ids)


def _blocking_shown(impact: Impact) -> dict[str, Any]:
    """Return how many branches would be blocked, and why not the others, as the contract's object."""
    gaps = [
        {**gap, "open_pull_request_count": impact.pull_requests[gap["state"], gap["code"]]}
        for gap in gaps_shown(impact.branches)
    ]
    return {**states_shown(impact.branches), "gaps": gaps}
