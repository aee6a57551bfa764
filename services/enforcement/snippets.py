"""Snippets of one branch: texts for other tools that require its check, or stop requiring it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select

from models.enforcement import BranchEnforcement
from models.repositories import Repository, WatchedBranch
from rules.freezes.check_names import is_pattern_check
from rules.rulesets.rulesets import desired_ruleset, excluded_patterns, pattern_of, ruleset_name
from rules.rulesets.snippets import PlacedRuleset, snippets_of
from services.core.lookups import get_branch
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import github


def snippets(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    """Return the snippets of a branch: for its repository, and for all repositories of its owner that need the rule.

    Those of its own check come first, then those of its pattern's. Raise `branch_not_found`, or `github_unavailable` if
    no App is configured to which a rule could be pinned.
    """
    branch = get_branch(uow, branch_id)
    repository = uow.session.get_one(Repository, branch.repository_id)
    return {
        "branch_id": branch.id,
        "check_name": branch.check_name,
        "snippets": [
            {**asdict(snippet), "check_name": name}
            for name in branch.check_names
            for snippet in snippets_of(_places(uow, name, repository, _found_as(uow, branch, name)))
        ],
    }


def _places(uow: UnitOfWork, check_name: str, repository: Repository, found_as: str) -> list[PlacedRuleset]:
    settings = github(uow).settings
    excluded = _excluded(uow, check_name, [repository, *_others(uow, check_name, repository)])
    exclude = excluded[repository]
    alike = [row.github_id for row, patterns in excluded.items() if patterns == exclude]
    own = desired_ruleset(check_name, settings.app_id, None, exclude)
    shared = desired_ruleset(check_name, settings.app_id, alike, exclude)
    return [
        PlacedRuleset("repository", repository.owner, repository.name, own, found_as, settings.api_url),
        PlacedRuleset("organization", repository.owner, repository.name, shared, found_as, settings.api_url),
    ]


def _found_as(uow: UnitOfWork, branch: WatchedBranch, check_name: str) -> str:
    """Return the name of the ruleset that requires the check now, or that of the one we would write."""
    seen = uow.session.get(BranchEnforcement, branch.id)
    of_pattern = seen is not None and seen.required and not seen.own_rule and branch.pattern_check_name is not None
    if seen is not None and seen.ruleset is not None and is_pattern_check(check_name) == of_pattern:
        return str(seen.ruleset["name"])
    return ruleset_name(pattern_of(check_name))


def _excluded(uow: UnitOfWork, check_name: str, repositories: Sequence[Repository]) -> dict[Repository, list[str]]:
    """Return, for each repository, the patterns that a rule of the check's pattern must exclude."""
    pattern = pattern_of(check_name)
    query = select(
        WatchedBranch.repository_id,
        WatchedBranch.name,
        func.coalesce(WatchedBranch.pattern_check_name, WatchedBranch.check_name),
    ).where(WatchedBranch.repository_id.in_([repository.id for repository in repositories]))
    names: dict[str, dict[str, str]] = {repository.id: {} for repository in repositories}
    for repository_id, branch, name in uow.session.execute(query) if is_pattern_check(check_name) else ():
        names[repository_id][branch] = name
    return {
        row: excluded_patterns(pattern, [*row.auto_watch, *row.former_globs], names[row.id]) for row in repositories
    }


def _others(uow: UnitOfWork, check_name: str, repository: Repository) -> list[Repository]:
    """Return the owner's other enabled repositories that need a rule for the same check."""
    query = select(Repository).where(
        Repository.installation_id == repository.installation_id,
        Repository.owner == repository.owner,
        Repository.id != repository.id,
        _needs(check_name),
    )
    return list(uow.session.scalars(query.order_by(Repository.id)))


def _needs(check_name: str) -> ColumnElement[bool]:
    """Return the condition for repositories that watch a branch with the check, or have its pattern as a glob."""
    watching = select(WatchedBranch.id).where(
        WatchedBranch.repository_id == Repository.id,
        or_(WatchedBranch.check_name == check_name, WatchedBranch.pattern_check_name == check_name),
        WatchedBranch.unwatched_at.is_(None),
    )
    by_glob = Repository.auto_watch.contains([pattern_of(check_name)])
    return Repository.enabled & Repository.removed_at.is_(None) & or_(by_glob, watching.exists())
