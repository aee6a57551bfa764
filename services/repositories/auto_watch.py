"""Branches that are watched by themselves: `autoWatch` globs match their names, or they are the default branch.

A rule at the code host reaches further than what is watched: it also holds branches that appear after a glob was taken
away, a repository was disabled, or a plan was full. Those are not watched, but kept free (`watching.keep_free`).
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, or_, select

from integrations.github import GitHub, InstallationClient
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.freezes.batches import batches
from rules.freezes.check_names import watched_automatically
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.rate_limiter import background_client
from services.repositories.watching import audit_watched, begin, keep_free, lock_watching, watch

logger = logging.getLogger(__name__)

BATCH = 25
"""Repositories whose branches are listed by one call."""


def matching_branches(
    client: InstallationClient, wanted: Sequence[tuple[Repository, Sequence[str]]]
) -> dict[str, list[str]]:
    """Return the names of the branches that the globs match, by repository id; no entry for what could not be read.

    Takes one call for each 25 repositories that have globs, and none for the others. Raises GitHubError for what
    concerns the whole installation.
    """
    found: dict[str, list[str]] = {}
    asked = [(repository, globs) for repository, globs in wanted if globs]
    for some in batches(asked, BATCH):
        answers = client.branch_tips([repository.node_id for repository, _globs in some])
        for (repository, globs), tips in zip(some, answers, strict=True):
            if tips.error is None:
                found[repository.id] = sorted(name for name in tips.branches if watched_automatically(name, globs))
    return found


def watch_matching(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, installation_id: int) -> None:
    """Watch what the globs of an installation's repositories match, or keep it free; raises GitHubError."""
    with uow_factory.open(caller) as uow:
        query = select(Repository).where(Repository.installation_id == installation_id, _concerned())
        repositories = uow.session.scalars(query.order_by(Repository.id)).all()
    client = background_client(uow_factory, github, installation_id)
    found = matching_branches(client, [(row, _globs(row)) for row in repositories])
    for repository_id, names in found.items():
        watch_what_appeared(uow_factory, caller, repository_id, names)


def _concerned() -> ColumnElement[bool]:
    """Return the condition for repositories whose new branches can be of interest: they have globs, and a past."""
    watched = select(WatchedBranch.id).where(WatchedBranch.repository_id == Repository.id)
    return and_(
        Repository.removed_at.is_(None),
        or_(Repository.auto_watch != [], Repository.former_globs != []),
        or_(Repository.enabled, watched.exists()),
    )


def _globs(repository: Repository) -> list[str]:
    return [*repository.auto_watch, *repository.former_globs]


def watch_default_branches(uow_factory: UnitOfWorkFactory, caller: Caller, reached: ColumnElement[bool]) -> None:
    """Watch the default branch of each enabled repository of the condition where it is new; the former stays watched.

    What somebody has ceased to watch stays so, and what the plan does not reach for stays unwatched.
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
        watch_what_appeared(uow_factory, caller, repository_id, [name])


def watch_what_appeared(
    uow_factory: UnitOfWorkFactory, caller: Caller, repository_id: str, names: Collection[str]
) -> None:
    """Watch branches that the repository watches by itself, but for those that somebody has ceased to watch.

    What the plan does not reach for is kept free, and so is what only a former glob matches.
    """
    try:
        with uow_factory.open(caller) as uow:
            _watch_new(uow, repository_id, names)
    except ServiceError as error:
        logger.warning("branches of %s stay unwatched: %s", repository_id, error)
    with uow_factory.open(caller) as uow:
        _keep_free(uow, repository_id, names)


def _watch_new(uow: UnitOfWork, repository_id: str, names: Collection[str]) -> None:
    if not _unknown(uow, repository_id, names, or_never_watched=True):
        return
    [repository] = lock_watching(uow, [repository_id])
    if not repository.enabled or repository.removed_at is not None:
        return
    matching = [
        name
        for name in names
        if name == repository.default_branch or watched_automatically(name, repository.auto_watch)
    ]
    fresh = watch(uow, {repository: matching}, revive=False)[repository.id]
    begin(uow, [branch.id for branch in fresh])
    for branch in fresh:
        audit_watched(uow, repository, branch)


def _keep_free(uow: UnitOfWork, repository_id: str, names: Collection[str]) -> None:
    if not _unknown(uow, repository_id, names):
        return
    [repository] = lock_watching(uow, [repository_id])
    unknown = _unknown(uow, repository_id, names)
    keep_free(uow, repository, [name for name in unknown if watched_automatically(name, _globs(repository))])


def _unknown(
    uow: UnitOfWork, repository_id: str, names: Collection[str], *, or_never_watched: bool = False
) -> set[str]:
    """Return the names under which no branch is kept; with `or_never_watched` also those that are only kept free."""
    known = select(WatchedBranch.name).where(WatchedBranch.repository_id == repository_id)
    if or_never_watched:
        known = known.where(~WatchedBranch.never_watched)
    return set(names) - set(uow.session.scalars(known))


def watch_what_is_named(uow_factory: UnitOfWorkFactory, job: Caller, named: Mapping[int, Collection[str]]) -> None:
    """Watch or keep free branches that were heard of, by the code host's ids of their repositories."""
    with uow_factory.open(job) as uow:
        query = (
            select(Repository, Organization.plan)
            .join(Organization, Organization.id == Repository.organization_id)
            .where(Repository.github_id.in_(list(named)), _concerned())
        )
        rows = uow.session.execute(query.order_by(Repository.id)).all() if named else []
    for repository, plan in rows:
        names = [name for name in named[repository.github_id] if watched_automatically(name, _globs(repository))]
        if names:
            caller = Caller(repository.organization_id, job.actor, job.source, plan=plan)
            watch_what_appeared(uow_factory, caller, repository.id, names)
