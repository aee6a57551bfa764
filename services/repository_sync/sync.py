"""The mirror of repositories: compared with what an installation covers, on request and after webhooks.

A requested comparison is a row of the work queue, which survives a lost wake-up and a killed worker. GitHub is read
outside of transactions, and only while the installation is not paused; the result is written only while the lease is
held, so that a slow comparison never replaces a later one. Nothing here ends a freeze or shrinks one (I14).
"""

import logging
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Select, or_, select, text

from integrations.github import INACTIVE_INSTALLATION, ErrorKind, GitHub, GitHubError, RepositoryInfo
from models.checks import mark_dirty, request_read_back
from models.installations import Installation, RepositorySync
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import CODE_HOST, SYSTEM
from rules.ids import new_id
from services.core.plan_grants import plan_grants_of
from services.core.unit_of_work import GITHUB_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.enforcement.orphans import report_orphans
from services.enforcement_status.probe_requests import schedule_probes
from services.freezes.targets import extend_open_freezes
from services.github_access.backoff import backoff
from services.github_access.failures import ThrottledError, pause_when_limited
from services.github_access.pauses import is_not_paused
from services.github_access.rate_limiter import background_client
from services.installations.status import refresh_status
from services.installations.sync_requests import request_comparison
from services.repositories.auto_watch import watch_default_branches, watch_matching
from services.repositories.watches import lock_coverage_exclusively, lock_repositories
from services.repository_sync.successors import enable_successors

logger = logging.getLogger(__name__)


SYNCS = WorkQueue(
    "sync",
    RepositorySync,
    select(RepositorySync.installation_id, RepositorySync.organization_id, RepositorySync.attempts)
    .join(Installation, Installation.id == RepositorySync.installation_id)
    .where(is_not_paused())
    .order_by(RepositorySync.requested_at, RepositorySync.installation_id),
    lease=timedelta(minutes=5),  # as long as GitHub may take to list the repositories of an installation
)


def request_sync(uow: UnitOfWork) -> dict[str, Any]:
    """Queue a comparison for every active installation of the organisation, or join those that are queued."""
    active = select(Installation).where(
        Installation.organization_id == uow.organization, Installation.state == "active"
    )
    installations = uow.session.scalars(active.order_by(Installation.id).with_for_update()).all()
    ids = {installation.id for installation in installations}
    request_comparison(uow, ids, join=True)
    requested = select(RepositorySync).where(RepositorySync.installation_id.in_(ids))
    syncs = uow.session.scalars(requested.execution_options(populate_existing=True)).all()
    running = any(sync.lease_until is not None and sync.lease_until > uow.now for sync in syncs)
    uow.audit("repository.sync_requested", ("organization", uow.organization, uow.organization))
    return {
        "state": "running" if running else "queued",
        "requested_at": min((sync.requested_at for sync in syncs), default=uow.now),
        "last_synced_at": _last_synced(installation.synced_at for installation in installations),
    }


def _last_synced(instants: Iterable[datetime | None]) -> datetime | None:
    """Return when the whole list was last complete: no later than its oldest part."""
    known = list(instants)
    return min((instant for instant in known if instant), default=None) if all(known) else None


def sync_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Run one comparison that was requested; False if none is due."""
    return SYNCS.work_on_next(uow_factory, partial(_sync, uow_factory, github))


def _sync(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    installation_id = lease.row.installation_id
    try:
        sync_installation(uow_factory, github, lease)
    except GitHubError as error:
        logger.warning("the repositories of installation %s could not be read: %s", installation_id, error)
        with uow_factory.open(GITHUB_CALLER) as uow:
            pause_when_limited(uow, installation_id, error)
            lease.fail(uow, error.code, error.message, uow.now + backoff(error, lease.row.attempts))


def sync_installation(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    """Compare our repositories with those that an installation covers; watch their default branches and globs' matches.

    Raise GitHubError if GitHub could not be read, and LeaseLostError if a later comparison may have read something
    newer. An installation that is gone, or is back, is recorded as such.
    """
    installation_id = lease.row.installation_id
    with uow_factory.open(GITHUB_CALLER) as uow:
        caller = _caller(uow, lease.row.organization_id)
        away = uow.session.get_one(Installation, installation_id).state != "active"
    if away and refresh_status(uow_factory, github, installation_id) != "active":
        _postpone(uow_factory, lease)
        return
    try:
        covered = list(background_client(uow_factory, github, installation_id).repositories())
    except GitHubError as error:
        if error.kind not in INACTIVE_INSTALLATION:
            raise
        refresh_status(uow_factory, github, installation_id)
        _postpone(uow_factory, lease)
        return
    with uow_factory.open(caller) as uow:
        _compare(uow, lease, covered)
    watch_default_branches(uow_factory, caller, Repository.installation_id == installation_id)
    watch_matching(uow_factory, github, caller, installation_id)
    with uow_factory.open(caller) as uow:
        installation = uow.session.get_one(Installation, installation_id, with_for_update=True)
        if lease.release(uow):
            installation.synced_at = max(installation.synced_at or lease.acquired_at, lease.acquired_at)
    report_orphans(uow_factory, github, replace(caller, actor=SYSTEM, source="system"), installation_id)


def _postpone(uow_factory: UnitOfWorkFactory, lease: Lease) -> None:
    """Ask again later about an installation that is suspended or removed."""
    with uow_factory.open(GITHUB_CALLER) as uow:
        lease.postpone(uow, uow.now + SYNCS.lease)


def _caller(uow: UnitOfWork, organization_id: str) -> Caller:
    return Caller(organization_id, CODE_HOST, "code_host", plan_grants_of(uow, organization_id))


def _compare(uow: UnitOfWork, lease: Lease, covered: list[RepositoryInfo]) -> None:
    installation_id, started = lease.row.installation_id, lease.acquired_at
    installation = uow.session.get_one(Installation, installation_id, with_for_update=True)
    lease.require(uow)
    lock_coverage_exclusively(uow)
    known = {row.github_id: row for row in uow.session.scalars(_rows(uow, installation_id, covered))}
    added: list[Repository] = []
    reached: list[Repository] = []
    disabled: list[Repository] = []
    for info in covered:
        row = known.pop(info.github_id, None)
        if row is None:
            added.append(_new(uow, installation_id, info, started))
            continue
        if _refresh(uow, row, installation_id, info, started):
            reached.append(row)
        if not row.enabled:
            disabled.append(row)
    gone = [row for row in known.values() if row.removed_at is None]
    for row in gone:
        row.removed_at = uow.now
    uow.session.add_all(added)
    enable_successors(uow, [*added, *disabled])
    _extend_freezes(uow, reached)
    _retry_missing_repositories(uow, installation_id)
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
        .with_for_update(key_share=True)
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


def _refresh(uow: UnitOfWork, row: Repository, installation_id: int, info: RepositoryInfo, synced_at: datetime) -> bool:
    """Save what was read; True if more scopes may reach the repository, because it is renamed or covered again.

    The texts of its checks are written again if other people can read them now.
    """
    if row.private != info.private:
        branches = select(WatchedBranch.id).where(WatchedBranch.repository_id == row.id)
        mark_dirty(uow.session, uow.session.scalars(branches).all(), uow.now)
        uow.wake("reconcile")
    changed = row.removed_at is not None or row.full_name != f"{info.owner}/{info.name}"
    if row.owner.lower() != info.owner.lower():
        row.rulesets_authorized_by = row.rulesets_authorized_at = None  # by an administrator of another account
    for name, value in asdict(info).items():
        setattr(row, name, value)
    row.installation_id, row.removed_at = installation_id, None
    row.synced_at = max(row.synced_at, synced_at)
    return changed


def _extend_freezes(uow: UnitOfWork, repositories: Iterable[Repository]) -> None:
    """Extend open-ended freezes to the branches of repositories that are renamed or covered again, and probe those."""
    enabled = [repository.id for repository in repositories if repository.enabled]
    query = select(WatchedBranch.id).where(WatchedBranch.repository_id.in_(enabled))
    branch_ids = uow.session.scalars(query).all() if enabled else []
    if branch_ids:
        extend_open_freezes(uow, branch_ids)
        schedule_probes(uow, branch_ids, rules_changed=True)


def _retry_missing_repositories(uow: UnitOfWork, installation_id: int) -> None:
    """Make branches due whose repository GitHub did not find before; it is in the list of repositories now."""
    parked = text("""
        SELECT DISTINCT b.id FROM checks c
        JOIN repositories r ON r.id = c.repository_id
        JOIN watched_branches b ON b.repository_id = c.repository_id AND c.name IN (b.check_name, b.pattern_check_name)
        WHERE c.installation_id = :installation AND r.removed_at IS NULL AND c.due_at > :now
          AND c.last_error_code = 'repository_not_found'
    """)
    branch_ids = uow.session.scalars(parked, {"now": uow.now, "installation": installation_id}).all()
    mark_dirty(uow.session, branch_ids, uow.now, outdated=False)
    request_read_back(uow.session, branch_ids, uow.now)
    uow.wake("reconcile")


def refresh_repository(uow_factory: UnitOfWorkFactory, github: GitHub, github_id: int) -> None:
    """Read one repository again in every organisation that mirrors it: its name, default branch, or removal.

    If GitHub must not be called now, request a comparison instead. Raise GitHubError if GitHub could not be read.
    """
    with uow_factory.open(GITHUB_CALLER) as uow:
        query = select(Repository.id, Repository.installation_id).where(Repository.github_id == github_id)
        rows = uow.session.execute(query).all()
    for repository_id, installation_id in rows:
        try:
            info = background_client(uow_factory, github, installation_id).repository(github_id)
        except ThrottledError:
            with uow_factory.open(GITHUB_CALLER) as uow:  # refresh requests are soon given up; a comparison waits
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
    [row] = lock_repositories(uow, [repository_id])
    account = uow.session.get_one(Installation, row.installation_id).account
    target = ("repository", row.id, row.full_name)
    before = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if info is None or info.owner.lower() != account.lower():  # a public one is readable wherever it has gone
        row.removed_at = row.removed_at or uow.now
    elif row.removed_at is None and _refresh(uow, row, row.installation_id, info, uow.now):
        _extend_freezes(uow, [row])
        if not row.enabled:  # it may have got the name of a frozen one that is gone
            request_comparison(uow, [row.installation_id])
    after = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if before != after:
        uow.audit("repository.synced", target, before=before, after=after)
