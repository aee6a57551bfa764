"""Automatically watched branches: those that `autoWatch` globs match, and default branches.

A rule at GitHub reaches further than what is watched: it also applies to branches that appear after a glob was removed,
a repository was disabled, or the quota was reached. Those are not watched, but released (`watches.release_unwatched`).
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, or_, select

from integrations.github import GitHub, InstallationClient
from models.repositories import Repository, WatchedBranch
from rules.batches import batches
from rules.errors import ServiceError
from rules.freezes.check_names import watched_automatically
from services.core.plan_grants import plan_grants
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.rate_limiter import background_client
from services.repositories.watches import audit_watched, cover_and_probe, lock_repositories, release_unwatched, watch

logger = logging.getLogger(__name__)

BATCH = 25
"""Repositories whose branches are listed by one request."""


def matching_branches(
    client: InstallationClient, wanted: Sequence[tuple[Repository, Sequence[str]]]
) -> dict[str, list[str]]:
    """Return the branch names that the globs match, by repository id; repositories that could not be read are missing.

    Needs one request per 25 repositories with globs. Raise GitHubError if the whole installation is affected.
    """
    found: dict[str, list[str]] = {}
    with_globs = [(repository, globs) for repository, globs in wanted if globs]
    for batch in batches(with_globs, BATCH):
        results = client.branch_tips([repository.node_id for repository, _globs in batch])
        for (repository, globs), tips in zip(batch, results, strict=True):
            if tips.error is None:
                found[repository.id] = sorted(name for name in tips.branches if watched_automatically(name, globs))
    return found


def watch_matching(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, installation_id: int) -> None:
    """Watch what the globs of an installation's repositories match, or release it. Raise GitHubError."""
    with uow_factory.open(caller) as uow:
        query = select(Repository).where(Repository.installation_id == installation_id, _may_match())
        repositories = uow.session.scalars(query.order_by(Repository.id)).all()
    client = background_client(uow_factory, github, installation_id)
    found = matching_branches(client, [(row, _globs(row)) for row in repositories])
    for repository_id, names in found.items():
        watch_new_branches(uow_factory, caller, repository_id, names)


def _may_match() -> ColumnElement[bool]:
    """Return the condition for repositories with globs, current or former, that are or were watched."""
    watched = select(WatchedBranch.id).where(WatchedBranch.repository_id == Repository.id)
    return and_(
        Repository.removed_at.is_(None),
        or_(Repository.auto_watch != [], Repository.former_globs != []),
        or_(Repository.enabled, watched.exists()),
    )


def _globs(repository: Repository) -> list[str]:
    return [*repository.auto_watch, *repository.former_globs]


def watch_default_branches(uow_factory: UnitOfWorkFactory, caller: Caller, reached: ColumnElement[bool]) -> None:
    """Watch new default branches of enabled repositories that meet the condition; the former default stays watched.

    A branch that was explicitly unwatched stays unwatched, and so does one beyond the quota.
    """
    known = select(WatchedBranch.id).where(
        WatchedBranch.repository_id == Repository.id,
        WatchedBranch.name == Repository.default_branch,
        ~WatchedBranch.never_watched,
    )
    new = select(Repository.id, Repository.default_branch).where(
        reached, Repository.enabled, Repository.removed_at.is_(None), ~known.exists()
    )
    with uow_factory.open(caller) as uow:
        rows = uow.session.execute(new.order_by(Repository.id)).all()
    for repository_id, name in rows:
        watch_new_branches(uow_factory, caller, repository_id, [name])


def watch_new_branches(
    uow_factory: UnitOfWorkFactory, caller: Caller, repository_id: str, names: Collection[str]
) -> None:
    """Watch branches that match the repository's globs, except those that were explicitly unwatched.

    Branches beyond the quota, and those that only a former glob matches, are released instead.
    """
    try:
        with uow_factory.open(caller) as uow:
            _watch_new(uow, repository_id, names)
    except ServiceError as error:
        logger.warning("branches of %s not watched: %s", repository_id, error)
    with uow_factory.open(caller) as uow:
        _release(uow, repository_id, names)


def _watch_new(uow: UnitOfWork, repository_id: str, names: Collection[str]) -> None:
    if not _unknown(uow, repository_id, names, or_never_watched=True):
        return
    [repository] = lock_repositories(uow, [repository_id])
    if not repository.enabled or repository.removed_at is not None:
        return
    matching = [
        name
        for name in names
        if name == repository.default_branch or watched_automatically(name, repository.auto_watch)
    ]
    fresh = watch(uow, {repository: matching}, revive=False)[repository.id]
    cover_and_probe(uow, [branch.id for branch in fresh])
    for branch in fresh:
        audit_watched(uow, repository, branch)


def _release(uow: UnitOfWork, repository_id: str, names: Collection[str]) -> None:
    if not _unknown(uow, repository_id, names):
        return
    [repository] = lock_repositories(uow, [repository_id])
    unknown = _unknown(uow, repository_id, names)
    release_unwatched(uow, repository, [name for name in unknown if watched_automatically(name, _globs(repository))])


def _unknown(
    uow: UnitOfWork, repository_id: str, names: Collection[str], *, or_never_watched: bool = False
) -> set[str]:
    """Return the names without a branch row; with `or_never_watched`, also those of branches that are only released."""
    known = select(WatchedBranch.name).where(WatchedBranch.repository_id == repository_id)
    if or_never_watched:
        known = known.where(~WatchedBranch.never_watched)
    return set(names) - set(uow.session.scalars(known))


def watch_named_branches(uow_factory: UnitOfWorkFactory, job: Caller, named: Mapping[int, Collection[str]]) -> None:
    """Watch or release branches that a webhook named, by GitHub's ids of their repositories.

    `job` has no organisation: each repository is worked on as its actor in the organisation of the repository.
    """
    with uow_factory.open(job) as uow:
        query = select(Repository).where(Repository.github_id.in_(list(named)), _may_match()).order_by(Repository.id)
        repositories = uow.session.scalars(query).all() if named else []
        grants = plan_grants(uow, {repository.organization_id for repository in repositories})
    for repository in repositories:
        names = [name for name in named[repository.github_id] if watched_automatically(name, _globs(repository))]
        if names:
            organization_id = repository.organization_id
            caller = Caller(organization_id, job.actor, job.source, grants[organization_id])
            watch_new_branches(uow_factory, caller, repository.id, names)
