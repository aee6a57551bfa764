"""The mirror of repositories: compared with what an installation covers, on request and on a webhook's hint.

A comparison is asked for by a mark on the installation, which outlives a lost wake-up and a killed worker. The code
host is read outside of any transaction, and only while it has not asked us to wait; what was read is written only by
the comparison that began last, so that a slow one never undoes what a later one has seen. Nothing here ends a freeze
or takes a branch out of one (I14).
"""

import logging
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, or_, select, text

from integrations.github import ErrorKind, GitHub, GitHubError, RepositoryInfo
from models.installations import Installation
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import CODE_HOST, SYSTEM
from rules.ids import new_id
from services.core.unit_of_work import GITHUB_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.orphans import report_orphans
from services.freezes.targets import extend_open_freezes
from services.github_access.failures import ThrottledError, pause_when_limited
from services.github_access.rate_limiter import background_client
from services.installations.status import refresh_status
from services.installations.sync_requests import SYNC_TIMEOUT, is_running, request_comparison
from services.repositories.auto_watch import watch_default_branches, watch_matching
from services.repositories.watching import lock_coverage_exclusively, lock_watching

logger = logging.getLogger(__name__)


def request_sync(uow: UnitOfWork) -> dict[str, Any]:
    """Queue a comparison for every active installation of the organisation, or join those that are queued."""
    active = select(Installation).where(
        Installation.organization_id == uow.organization, Installation.state == "active"
    )
    installations = uow.session.scalars(active.order_by(Installation.id).with_for_update()).all()
    request_comparison(uow, {installation.id for installation in installations}, join=True)
    requested = [installation.sync_requested_at or uow.now for installation in installations]
    running = any(is_running(installation, uow.now) for installation in installations)
    uow.audit("repository.sync_requested", ("organization", uow.organization, uow.organization))
    return {
        "state": "running" if running else "queued",
        "requested_at": min(requested, default=uow.now),
        "last_synced_at": _last_synced(installation.synced_at for installation in installations),
    }


def _last_synced(instants: Iterable[datetime | None]) -> datetime | None:
    """Return when the whole list was last complete: no later than its oldest part."""
    known = list(instants)
    return min((instant for instant in known if instant), default=None) if all(known) else None


def ask_every_installation(uow: UnitOfWork) -> None:
    """Have every installation compared, and asked for where it was suspended: heals webhooks that were missed."""
    claimed = select(Installation.id).where(Installation.organization_id.is_not(None))
    request_comparison(uow, uow.session.scalars(claimed).all())


def sync_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Do one comparison that was asked for; False when none waits. One that fails waits for `LONGEST_SYNC`."""
    with uow_factory.open(GITHUB_CALLER) as uow:
        found = _waiting(uow)
    if found is None:
        return False
    try:
        sync_installation(uow_factory, github, found)
    except GitHubError as error:
        logger.warning("the repositories of installation %s could not be read: %s", found, error)
        with uow_factory.open(GITHUB_CALLER) as uow:
            pause_when_limited(uow, found, error)
    return True


def has_syncs(uow: UnitOfWork) -> bool:
    """Return whether a comparison was requested and is not running."""
    return _waiting(uow) is not None


def _waiting(uow: UnitOfWork) -> int | None:
    return uow.session.scalar(
        select(Installation.id)
        .where(
            Installation.organization_id.is_not(None),
            Installation.sync_requested_at.is_not(None),
            or_(Installation.paused_until.is_(None), Installation.paused_until <= uow.now),
            or_(Installation.synced_at.is_(None), Installation.synced_at < Installation.sync_requested_at),
            or_(
                Installation.sync_started_at.is_(None),
                Installation.sync_started_at < Installation.sync_requested_at,
                Installation.sync_started_at <= uow.now - SYNC_TIMEOUT,
            ),
        )
        .order_by(Installation.sync_requested_at)
        .limit(1)
    )


def sync_installation(uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int) -> None:
    """Compare our repositories with those that an installation covers; watch their default branches and globs' matches.

    Raises GitHubError when the code host could not be read; an installation that is gone, or is back, is recorded as
    such.
    """
    with uow_factory.open(GITHUB_CALLER) as uow:
        caller, started = _start(uow, installation_id)
        away = caller is not None and uow.session.get_one(Installation, installation_id).state != "active"
    if caller is None or (away and refresh_status(uow_factory, github, installation_id) != "active"):
        return
    try:
        covered = list(background_client(uow_factory, github, installation_id).repositories())
    except GitHubError as error:
        if error.kind is not ErrorKind.INSTALLATION_REMOVED:
            raise
        refresh_status(uow_factory, github, installation_id)
        return
    with uow_factory.open(caller) as uow:
        _compare(uow, installation_id, covered, started)
    watch_default_branches(uow_factory, caller, Repository.installation_id == installation_id)
    watch_matching(uow_factory, github, caller, installation_id)
    with uow_factory.open(caller) as uow:
        installation = uow.session.get_one(Installation, installation_id, with_for_update=True)
        installation.synced_at = max(installation.synced_at or started, started)
    report_orphans(uow_factory, github, replace(caller, actor=SYSTEM, source="system"), installation_id)


def _start(uow: UnitOfWork, installation_id: int) -> tuple[Caller | None, datetime]:
    installation = uow.session.get(Installation, installation_id, with_for_update=True)
    if installation is None or installation.organization_id is None:
        return None, uow.now
    installation.sync_started_at = uow.now
    return _caller(uow, installation.organization_id), uow.now


def _caller(uow: UnitOfWork, organization_id: str) -> Caller:
    plan = uow.session.get_one(Organization, organization_id).plan
    return Caller(organization_id, CODE_HOST, "code_host", plan=plan)


def _compare(uow: UnitOfWork, installation_id: int, covered: list[RepositoryInfo], started: datetime) -> None:
    installation = uow.session.get_one(Installation, installation_id, with_for_update=True)
    if installation.sync_started_at != started:
        return  # one that began later has read, or will read, something newer
    lock_coverage_exclusively(uow)
    known = {row.github_id: row for row in uow.session.scalars(_rows(uow, installation_id, covered))}
    added: list[Repository] = []
    reached: list[Repository] = []
    for info in covered:
        row = known.pop(info.github_id, None)
        if row is None:
            added.append(_new(uow, installation_id, info, started))
        elif _refresh(row, installation_id, info, started):
            reached.append(row)
    gone = [row for row in known.values() if row.removed_at is None]
    for row in gone:
        row.removed_at = uow.now
    uow.session.add_all(added)
    _reach_anew(uow, reached)
    _examine_what_was_not_found(uow, installation_id)
    counts = {"added": len(added), "changed": len(reached), "removed": len(gone)}
    if any(counts.values()):
        name = ("installation", str(installation_id), installation.account)
        uow.audit("repository.synced", name, covered=len(covered), **counts)


def _rows(uow: UnitOfWork, installation_id: int, covered: list[RepositoryInfo]) -> Select[Repository]:
    ids = [info.github_id for info in covered]
    return (
        select(Repository)
        .where(
            Repository.organization_id == uow.organization,
            or_(Repository.installation_id == installation_id, Repository.github_id.in_(ids)),
        )
        .order_by(Repository.id)
        .with_for_update()
    )


def _new(uow: UnitOfWork, installation_id: int, info: RepositoryInfo, synced_at: datetime) -> Repository:
    return Repository(
        id=new_id("rep"),
        organization_id=uow.organization,
        installation_id=installation_id,
        created_at=uow.now,
        synced_at=synced_at,
        **asdict(info),
    )


def _refresh(row: Repository, installation_id: int, info: RepositoryInfo, synced_at: datetime) -> bool:
    """Write down what was read; tell whether scopes may reach the repository anew: renamed, or covered again."""
    changed = row.removed_at is not None or row.full_name != f"{info.owner}/{info.name}"
    for name, value in asdict(info).items():
        setattr(row, name, value)
    row.installation_id, row.removed_at = installation_id, None
    row.synced_at = max(row.synced_at, synced_at)
    return changed


def _reach_anew(uow: UnitOfWork, repositories: Iterable[Repository]) -> None:
    """Let open-ended freezes in force take in branches whose repository has a new name, or is covered again."""
    enabled = [repository.id for repository in repositories if repository.enabled]
    query = select(WatchedBranch.id).where(WatchedBranch.repository_id.in_(enabled))
    branch_ids = uow.session.scalars(query).all() if enabled else []
    if branch_ids:
        extend_open_freezes(uow, branch_ids)


def _examine_what_was_not_found(uow: UnitOfWork, installation_id: int) -> None:
    """Look now at branches that were parked because the code host did not show their repository, which it lists."""
    uow.session.execute(
        text(
            "WITH parked AS (SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
            "WHERE r.installation_id = :installation AND r.removed_at IS NULL AND b.due_at > :now "
            "AND b.last_error_code = 'repository_not_found' ORDER BY b.id FOR NO KEY UPDATE OF b) "
            "UPDATE watched_branches b SET due_at = :now, read_back = true, attempts = 0 "
            "FROM parked WHERE b.id = parked.id"
        ),
        {"now": uow.now, "installation": installation_id},
    )
    uow.wake("reconcile")


def refresh_repository(uow_factory: UnitOfWorkFactory, github: GitHub, github_id: int) -> None:
    """Read one repository anew, wherever it is mirrored: its name, its default branch, or that it is gone.

    Where it must not be asked now, a comparison does it later. Raises GitHubError when the code host could not be read.
    """
    with uow_factory.open(GITHUB_CALLER) as uow:
        query = select(Repository.id, Repository.installation_id).where(Repository.github_id == github_id)
        rows = uow.session.execute(query).all()
    for repository_id, installation_id in rows:
        try:
            info = background_client(uow_factory, github, installation_id).repository(github_id)
        except ThrottledError:
            with uow_factory.open(GITHUB_CALLER) as uow:  # hints are soon given up; a comparison waits
                request_comparison(uow, [installation_id])
            continue
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            info = None
        with uow_factory.open(GITHUB_CALLER) as uow:
            caller = _caller(uow, uow.session.get_one(Repository, repository_id).organization_id)
        with uow_factory.open(caller) as uow:
            _record(uow, repository_id, info)
        watch_default_branches(uow_factory, caller, Repository.id == repository_id)


def _record(uow: UnitOfWork, repository_id: str, info: RepositoryInfo | None) -> None:
    [row] = lock_watching(uow, [repository_id])
    account = uow.session.get_one(Installation, row.installation_id).account
    target = ("repository", row.id, row.full_name)
    before = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if info is None or info.owner.lower() != account.lower():  # a public one is readable wherever it has gone
        row.removed_at = row.removed_at or uow.now
    elif row.removed_at is None and _refresh(row, row.installation_id, info, uow.now):
        _reach_anew(uow, [row])
    after = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if before != after:
        uow.audit("repository.synced", target, before=before, after=after)
