"""Enabling and disabling repositories, and the globs by which their branches are watched by themselves."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from models.queries import covering_freezes, raise_generation
from models.repositories import Repository, WatchedBranch
from rules.errors import Detail, ServiceError
from rules.freezes.check_names import former_globs
from rules.freezes.globs import compile_globs
from rules.rulesets.rulesets import ref_patterns
from services.core.unit_of_work import Unit
from services.enforcement_status.probe_requests import ask_for_probes
from services.github_access import client
from services.installations.sync_requests import request_comparison
from services.repositories.auto_watch import BATCH, matching_branches
from services.repositories.repositories import batch, views, visible
from services.repositories.watching import begin, lock_watching, watch

logger = logging.getLogger(__name__)

NAMED = 10
"""Frozen branches of a repository that a refusal names."""


def enable(unit: Unit, references: Sequence[str]) -> list[dict[str, Any]]:
    """Enable repositories, all or none; one that is enabled already stays as it is.

    Each watches its default branch and what its globs match. Raises `invalid_parameter` (pointers) for unknown ones,
    and `feature_not_available`.
    """
    named = list(batch(unit, references).values())
    matching = _match_now_or_later(unit, [(row, row.auto_watch) for row in named if not row.enabled])
    turning = [row for row in lock_watching(unit, [row.id for row in named]) if not row.enabled]
    for repository in turning:
        repository.enabled = True
    fresh = watch(unit, {row: [row.default_branch, *matching.get(row.id, ())] for row in turning})
    begin(unit, [branch.id for branch in _watched(unit, turning)])
    for repository in turning:
        names = [branch.name for branch in fresh[repository.id]]
        _audit(unit, "repository.enabled", repository, {"enabled": False}, {"enabled": True, "watched": names})
    return views(unit, named)


def disable(unit: Unit, references: Sequence[str]) -> list[dict[str, Any]]:
    """Disable repositories, all or none; their branches go on being judged, and get `success`.

    Raises `invalid_parameter` (pointers) for unknown ones, and `already_frozen` naming the branches that are frozen.
    """
    named = batch(unit, references)
    turning = [row for row in lock_watching(unit, [row.id for row in named.values()]) if row.enabled]
    branches = _watched(unit, turning)
    _refuse_frozen(unit, named, branches)
    raise_generation(unit.session, [branch.id for branch in branches], unit.now)
    ask_for_probes(unit, [branch.id for branch in branches])
    for repository in turning:
        repository.enabled = False
        _audit(unit, "repository.disabled", repository, {"enabled": True}, {"enabled": False})
    unit.wake("reconcile")
    return views(unit, list(named.values()))


def update(unit: Unit, reference: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Change a repository's settings: its globs. What they match is watched; nothing stops being watched.

    Raises `repository_not_found`, `invalid_glob` (pointers), `feature_not_available`.
    """
    globs: list[str] | None = settings.get("autoWatch")
    if globs:
        compile_globs(globs, "branch", "/settings/autoWatch")
        _require_expressible(globs)
    named = visible(unit, reference)
    matching = _match_now_or_later(unit, [(named, globs or ())] if named.enabled else [])
    [repository] = lock_watching(unit, [named.id])
    before = repository.auto_watch
    if globs is not None:
        repository.former_globs = former_globs(repository.former_globs, before, globs)
        repository.auto_watch = globs
    if repository.enabled:
        fresh = watch(unit, {repository: matching.get(repository.id, ())})
        begin(unit, [branch.id for branch in fresh[repository.id]])
    _audit(unit, "repository.updated", repository, {"autoWatch": before}, {"autoWatch": repository.auto_watch})
    return views(unit, [repository])[0]


def _require_expressible(globs: Sequence[str]) -> None:
    """Raise `invalid_glob` with the pointer of each glob that no rule at the code host could stand for."""
    faults = []
    for index, glob in enumerate(globs):
        try:
            ref_patterns(glob.removeprefix("!"))
        except ServiceError as error:
            faults.append(Detail(f"/settings/autoWatch/{index}", error.message, error.code))
    if faults:
        raise ServiceError("invalid_glob", faults[0].message, details=tuple(faults))


def _match_now_or_later(unit: Unit, candidates: Sequence[tuple[Repository, Sequence[str]]]) -> dict[str, list[str]]:
    """Return the branches that globs match, as far as one call can tell; the rest is left to the job `sync`.

    A code host that does not answer delays the watching of such branches, and refuses nothing. The call is made
    before any lock is taken; it holds this unit's database connection for its length, at most its deadline.
    """
    wanted = [(repository, globs) for repository, globs in candidates if globs]
    if not wanted:
        return {}
    found: dict[str, list[str]] = {}
    try:
        found = matching_branches(client.client(unit), wanted[:BATCH])
    except ServiceError as error:
        logger.warning("branches are matched later: %s", error)
    if len(found) < len(wanted):
        request_comparison(unit, {repository.installation_id for repository, _globs in wanted})
    return found


def _watched(unit: Unit, repositories: Sequence[Repository]) -> list[WatchedBranch]:
    query = select(WatchedBranch).where(
        WatchedBranch.repository_id.in_([repository.id for repository in repositories]),
        WatchedBranch.unwatched_at.is_(None),
    )
    return list(unit.session.scalars(query.order_by(WatchedBranch.id)))


def _refuse_frozen(unit: Unit, named: Mapping[str, Repository], branches: Sequence[WatchedBranch]) -> None:
    """Raise `already_frozen`, pointing at each repository with a frozen branch and naming those branches."""
    freezes = covering_freezes(unit.session, [branch.id for branch in branches], unit.now)
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
    message = f"Nothing was disabled; lift the freezes first. {details[0].message}."
    raise ServiceError("already_frozen", message, details=details)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    shown = ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _audit(unit: Unit, action: str, repository: Repository, before: dict[str, Any], after: dict[str, Any]) -> None:
    unit.audit(action, ("repository", repository.id, repository.full_name), before=before, after=after)
