"""Successors of frozen repositories: made again, or renamed, under the name of one that was deleted during a freeze.

GitHub gives such a repository another id, so it is another one for us, and nobody has enabled it. A freeze of
everything would not cover it. So it is enabled as its predecessor was, with its patterns, and its watched branches.
"""

import logging
from collections.abc import Iterable, Sequence

from sqlalchemy import select, text

from models.freezes import IN_FORCE
from models.queries import any_of
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.freezes.scope import OPEN_ENDED
from services.core.unit_of_work import UnitOfWork
from services.repositories.watches import cover_and_probe, watch

logger = logging.getLogger(__name__)

_FROZEN = text(f"""
    EXISTS (SELECT FROM watched_branches b JOIN freeze_targets t ON t.branch_id = b.id
            JOIN freezes f ON f.id = t.freeze_id
            WHERE b.repository_id = repositories.id AND t.operation = 'apply' AND {IN_FORCE}
              AND f.scope ->> 'type' = ANY(:open_ended))
""")


def enable_successors(uow: UnitOfWork, disabled: Sequence[Repository]) -> None:
    """Enable those of the disabled repositories whose predecessor a freeze of the organisation or of a pattern covers.

    The caller holds the coverage lock exclusively, and has recorded which repositories are gone. One whose branches
    the plan does not include stays as it is.
    """
    predecessors = _predecessors(uow, disabled)
    for repository in disabled:
        former = predecessors.get(repository.full_name.lower())
        if former is None:
            continue
        try:
            with uow.session.begin_nested():
                _enable(uow, repository, former)
        except ServiceError as error:
            logger.warning("%s is not enabled as its predecessor was: %s", repository.id, error)


def _predecessors(uow: UnitOfWork, disabled: Iterable[Repository]) -> dict[str, Repository]:
    """Return, by name in lower case, the last repository of that name, if it was enabled and is still frozen."""
    names = {repository.full_name.lower() for repository in disabled}
    if not names:
        return {}
    uow.session.flush()
    query = (
        select(Repository)
        .where(
            Repository.organization_id == uow.organization,
            Repository.removed_at.is_not(None),
            Repository.enabled,
            Repository.full_name_key == any_of(names),
            _FROZEN,
        )
        .order_by(Repository.removed_at, Repository.id)
    )
    rows = uow.session.scalars(query, {"now": uow.now, "open_ended": sorted(OPEN_ENDED)})
    return {row.full_name.lower(): row for row in rows}


def _enable(uow: UnitOfWork, repository: Repository, former: Repository) -> None:
    """Enable a repository as another one; raise `feature_not_available` if the plan has no room for its branches."""
    watched = uow.session.scalars(
        select(WatchedBranch.name).where(WatchedBranch.repository_id == former.id, WatchedBranch.unwatched_at.is_(None))
    )
    names = {repository.default_branch, *watched}
    repository.enabled = True
    repository.auto_watch, repository.former_globs = list(former.auto_watch), list(former.former_globs)
    fresh = watch(uow, {repository: names})[repository.id]
    cover_and_probe(uow, [branch.id for branch in fresh])
    uow.audit(
        "repository.enabled",
        ("repository", repository.id, repository.full_name),
        before={"enabled": False},
        after={"enabled": True, "watched": sorted(names)},
        predecessor=former.id,
    )
