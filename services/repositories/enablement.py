"""Enabling and disabling repositories, and their `autoWatch` globs."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from models.checks import mark_dirty
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.freezes.check_names import former_globs
from rules.freezes.globs import compile_globs
from rules.rulesets.rulesets import ref_patterns
from services.core.entity_tags import require_match
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access import client
from services.installations.sync_requests import request_comparison
from services.repositories.auto_watch import BATCH, matching_branches
from services.repositories.repositories import get_all_visible, get_visible, views
from services.repositories.watches import cover_and_probe, lock_repositories, watch

logger = logging.getLogger(__name__)

MAX_LISTED = 10
"""Frozen branches of a repository that an error lists."""


def enable(uow: UnitOfWork, references: Sequence[str]) -> list[dict[str, Any]]:
    """Enable repositories, all or none; those already enabled do not change.

    Each watches its default branch and what its globs match. Raise `invalid_parameter` (with pointers) for unknown
    repositories, and `feature_not_available`.
    """
    named = list(get_all_visible(uow, references).values())
    matching = _match_now_or_later(uow, [(row, row.auto_watch) for row in named if not row.enabled])
    enabling = [row for row in lock_repositories(uow, [row.id for row in named]) if not row.enabled]
    for repository in enabling:
        repository.enabled = True
    fresh = watch(uow, {row: [row.default_branch, *matching.get(row.id, ())] for row in enabling})
    cover_and_probe(uow, [branch.id for branch in _watched(uow, enabling)])
    for repository in enabling:
        names = [branch.name for branch in fresh[repository.id]]
        _audit(uow, "repository.enabled", repository, {"enabled": False}, {"enabled": True, "watched": names})
    return views(uow, named)


def disable(uow: UnitOfWork, references: Sequence[str]) -> list[dict[str, Any]]:
    """Disable repositories, all or none; their branches stay judged and get `success`.

    Raise `invalid_parameter` (with pointers) for unknown ones, and `already_frozen` with the frozen branches.
    """
    named = get_all_visible(uow, references)
    disabling = [row for row in lock_repositories(uow, [row.id for row in named.values()]) if row.enabled]
    branches = _watched(uow, disabling)
    _require_not_frozen(uow, named, branches)
    mark_dirty(uow.session, [branch.id for branch in branches], uow.now)
    schedule_probes(uow, [branch.id for branch in branches])
    for repository in disabling:
        repository.enabled = False
        _audit(uow, "repository.disabled", repository, {"enabled": True}, {"enabled": False})
    uow.wake("reconcile")
    return views(uow, list(named.values()))


def update(uow: UnitOfWork, reference: str, settings: dict[str, Any], if_match: str | None = None) -> dict[str, Any]:
    """Change a repository's settings. Branches that new globs match are watched; none is unwatched.

    Raise `repository_not_found`, `invalid_glob` (with pointers), `feature_not_available`, `precondition_failed`.
    """
    globs: list[str] | None = settings.get("autoWatch")
    named = get_visible(uow, reference)
    if globs is None:
        require_match(if_match, lambda: views(uow, [named])[0])
        return views(uow, [named])[0]
    if globs:
        compile_globs(globs, "branch", "/settings/autoWatch")
        _require_expressible(globs)
    matching = _match_now_or_later(uow, [(named, globs)] if named.enabled else [])
    [repository] = lock_repositories(uow, [named.id])
    require_match(if_match, lambda: views(uow, [repository])[0])
    before = repository.auto_watch
    repository.former_globs = former_globs(repository.former_globs, before, globs)
    repository.auto_watch = globs
    if repository.enabled:
        fresh = watch(uow, {repository: matching.get(repository.id, ())})
        cover_and_probe(uow, [branch.id for branch in fresh[repository.id]])
    if globs != before:
        _audit(uow, "repository.updated", repository, {"autoWatch": before}, {"autoWatch": globs})
    return views(uow, [repository])[0]


def _require_expressible(globs: Sequence[str]) -> None:
    """Raise `invalid_glob`, with pointers, if a glob cannot be expressed as a rule at GitHub."""
    errors = []
    for index, glob in enumerate(globs):
        try:
            ref_patterns(glob.removeprefix("!"))
        except ServiceError as error:
            errors.append(Detail(f"/settings/autoWatch/{index}", error.message, error.code))
    if errors:
        raise ServiceError("invalid_glob", errors[0].message, details=tuple(errors))


def _match_now_or_later(
    uow: UnitOfWork, candidates: Sequence[tuple[Repository, Sequence[str]]]
) -> dict[str, list[str]]:
    """Return the branches that globs match, as far as one request can find them; the job `sync` does the rest.

    If GitHub does not respond, watching is delayed but nothing fails. The request is made before any lock is acquired;
    it holds this unit's database connection until it is done, at most for its deadline.
    """
    wanted = [(repository, globs) for repository, globs in candidates if globs]
    if not wanted:
        return {}
    found: dict[str, list[str]] = {}
    try:
        found = matching_branches(client.client(uow), wanted[:BATCH])
    except ServiceError as error:
        logger.warning("matching branches later: %s", error)
    if len(found) < len(wanted):
        request_comparison(uow, {repository.installation_id for repository, _globs in wanted})
    return found


def _watched(uow: UnitOfWork, repositories: Sequence[Repository]) -> list[WatchedBranch]:
    query = select(WatchedBranch).where(
        WatchedBranch.repository_id.in_([repository.id for repository in repositories]),
        WatchedBranch.unwatched_at.is_(None),
    )
    return list(uow.session.scalars(query.order_by(WatchedBranch.id)))


def _require_not_frozen(uow: UnitOfWork, named: Mapping[str, Repository], branches: Sequence[WatchedBranch]) -> None:
    """Raise `already_frozen`, with a pointer and the branches for each repository that has frozen ones."""
    freezes = covering_freezes(uow.session, [branch.id for branch in branches], uow.now)
    frozen: dict[str, list[str]] = {}
    for branch in branches:
        if branch.id in freezes:
            frozen.setdefault(branch.repository_id, []).append(branch.name)
    if not frozen:
        return
    details = tuple(
        Detail(path, f"{row.full_name}: {_listed(sorted(frozen[row.id]))} frozen", "already_frozen")
        for path, row in named.items()
        if row.id in frozen
    )
    message = f"No repository was disabled. Lift the freezes first. {details[0].message}."
    raise ServiceError("already_frozen", message, details=details)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MAX_LISTED
    shown = ", ".join(names[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _audit(uow: UnitOfWork, action: str, repository: Repository, before: dict[str, Any], after: dict[str, Any]) -> None:
    uow.audit(action, ("repository", repository.id, repository.full_name), before=before, after=after)
