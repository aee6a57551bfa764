"""Snippets of one branch: texts for other tools that require its check, or stop requiring it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, or_, select

from models.enforcement import BranchEnforcement
from models.repositories import Repository, WatchedBranch
from rules.rulesets.rulesets import desired_ruleset, excluded_patterns, pattern_of, ruleset_name
from rules.rulesets.snippets import Place, snippets_of
from services.core.lookups import get_branch
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import github


def snippets(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    """Return the snippets of a branch: for its repository, and for all repositories of its owner that need the rule.

    Raise `branch_not_found`, or `github_unavailable` if no App is configured to which a rule could be pinned.
    """
    branch = get_branch(uow, branch_id)
    repository = uow.session.get_one(Repository, branch.repository_id)
    return {
        "branch_id": branch.id,
        "check_name": branch.check_name,
        "snippets": [asdict(snippet) for snippet in snippets_of(_places(uow, branch, repository))],
    }


def _places(uow: UnitOfWork, branch: WatchedBranch, repository: Repository) -> list[Place]:
    settings = github(uow).settings
    found_as = _found_as(uow, branch)
    excluded = _excluded(uow, branch, [repository, *_others(uow, branch, repository)])
    exclude = excluded[repository]
    alike = [row.github_id for row, patterns in excluded.items() if patterns == exclude]
    own = desired_ruleset(branch.check_name, settings.app_id, None, exclude)
    shared = desired_ruleset(branch.check_name, settings.app_id, alike, exclude)
    return [
        Place("repository", repository.owner, repository.name, own, found_as, settings.api_url),
        Place("organization", repository.owner, repository.name, shared, found_as, settings.api_url),
    ]


def _found_as(uow: UnitOfWork, branch: WatchedBranch) -> str:
    """Return the name of the ruleset that requires the check now, or that of the one we would write."""
    seen = uow.session.get(BranchEnforcement, branch.id)
    if seen is not None and seen.ruleset is not None:
        return str(seen.ruleset["name"])
    return ruleset_name(pattern_of(branch.check_name))


def _excluded(
    uow: UnitOfWork, branch: WatchedBranch, repositories: Sequence[Repository]
) -> dict[Repository, list[str]]:
    """Return, for each repository, the patterns that a rule of the branch's pattern must exclude."""
    pattern = pattern_of(branch.check_name)
    query = select(WatchedBranch.repository_id, WatchedBranch.name, WatchedBranch.check_name).where(
        WatchedBranch.repository_id.in_([repository.id for repository in repositories])
    )
    names: dict[str, dict[str, str]] = {repository.id: {} for repository in repositories}
    for repository_id, name, check_name in uow.session.execute(query) if "*" in pattern else ():
        names[repository_id][name] = check_name
    return {
        row: excluded_patterns(pattern, [*row.auto_watch, *row.former_globs], names[row.id]) for row in repositories
    }


def _others(uow: UnitOfWork, branch: WatchedBranch, repository: Repository) -> list[Repository]:
    """Return the owner's other enabled repositories that need a rule of the same pattern."""
    query = select(Repository).where(
        Repository.installation_id == repository.installation_id,
        Repository.owner == repository.owner,
        Repository.id != repository.id,
        _needs(branch),
    )
    return list(uow.session.scalars(query.order_by(Repository.id)))


def _needs(branch: WatchedBranch) -> ColumnElement[bool]:
    """Return the condition for repositories that watch the pattern of the branch's check."""
    watching = select(WatchedBranch.id).where(
        WatchedBranch.repository_id == Repository.id,
        WatchedBranch.check_name == branch.check_name,
        WatchedBranch.unwatched_at.is_(None),
    )
    by_glob = Repository.auto_watch.contains([pattern_of(branch.check_name)])
    return Repository.enabled & Repository.removed_at.is_(None) & or_(by_glob, watching.exists())
