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
from services.core.unit_of_work import GITHUB_CALLER, Caller, Unit, Units
from services.enforcement.orphans import look_for_orphans
from services.freezes.targets import take_in
from services.github_access.failures import HeldBackError, pause_when_limited
from services.github_access.rate_limiter import paced_client
from services.installations.status import examine
from services.installations.sync_requests import SYNC_TIMEOUT, is_running, request_comparison
from services.repositories.auto_watch import watch_default_branches, watch_matching
from services.repositories.watching import lock_coverage_exclusively, lock_watching

logger = logging.getLogger(__name__)


def request_sync(unit: Unit) -> dict[str, Any]:
    """Queue a comparison for every active installation of the organisation, or join those that are queued."""
    active = select(Installation).where(
        Installation.organization_id == unit.organization, Installation.state == "active"
    )
    installations = unit.session.scalars(active.order_by(Installation.id).with_for_update()).all()
    request_comparison(unit, {installation.id for installation in installations}, join=True)
    requested = [installation.sync_requested_at or unit.now for installation in installations]
    running = any(is_running(installation, unit.now) for installation in installations)
    unit.audit("repository.sync_requested", ("organization", unit.organization, unit.organization))
    return {
        "state": "running" if running else "queued",
        "requested_at": min(requested, default=unit.now),
        "last_synced_at": _last_synced(installation.synced_at for installation in installations),
    }


def _last_synced(instants: Iterable[datetime | None]) -> datetime | None:
    """Return when the whole list was last complete: no later than its oldest part."""
    known = list(instants)
    return min((instant for instant in known if instant), default=None) if all(known) else None


def ask_every_installation(unit: Unit) -> None:
    """Have every installation compared, and asked for where it was suspended: heals webhooks that were missed."""
    claimed = select(Installation.id).where(Installation.organization_id.is_not(None))
    request_comparison(unit, unit.session.scalars(claimed).all())


def sync_pending(units: Units, github: GitHub) -> bool:
    """Do one comparison that was asked for; False when none waits. One that fails waits for `LONGEST_SYNC`."""
    with units.open(GITHUB_CALLER) as unit:
        found = _waiting(unit)
    if found is None:
        return False
    try:
        sync_installation(units, github, found)
    except GitHubError as error:
        logger.warning("the repositories of installation %s could not be read: %s", found, error)
        with units.open(GITHUB_CALLER) as unit:
            pause_when_limited(unit, found, error)
    return True


def sync_waits(unit: Unit) -> bool:
    """Tell whether a comparison was asked for and nobody is at it; for the sweeper."""
    return _waiting(unit) is not None


def _waiting(unit: Unit) -> int | None:
    return unit.session.scalar(
        select(Installation.id)
        .where(
            Installation.organization_id.is_not(None),
            Installation.sync_requested_at.is_not(None),
            or_(Installation.paused_until.is_(None), Installation.paused_until <= unit.now),
            or_(Installation.synced_at.is_(None), Installation.synced_at < Installation.sync_requested_at),
            or_(
                Installation.sync_started_at.is_(None),
                Installation.sync_started_at < Installation.sync_requested_at,
                Installation.sync_started_at <= unit.now - SYNC_TIMEOUT,
            ),
        )
        .order_by(Installation.sync_requested_at)
        .limit(1)
    )


def sync_installation(units: Units, github: GitHub, installation_id: int) -> None:
    """Compare our repositories with those that an installation covers; watch their default branches and globs' matches.

    Raises GitHubError when the code host could not be read; an installation that is gone, or is back, is recorded as
    such.
    """
    with units.open(GITHUB_CALLER) as unit:
        caller, started = _start(unit, installation_id)
        away = caller is not None and unit.session.get_one(Installation, installation_id).state != "active"
    if caller is None or (away and examine(units, github, installation_id) != "active"):
        return
    try:
        covered = list(paced_client(units, github, installation_id).repositories())
    except GitHubError as error:
        if error.kind is not ErrorKind.INSTALLATION_REMOVED:
            raise
        examine(units, github, installation_id)
        return
    with units.open(caller) as unit:
        _compare(unit, installation_id, covered, started)
    watch_default_branches(units, caller, Repository.installation_id == installation_id)
    watch_matching(units, github, caller, installation_id)
    with units.open(caller) as unit:
        installation = unit.session.get_one(Installation, installation_id, with_for_update=True)
        installation.synced_at = max(installation.synced_at or started, started)
    look_for_orphans(units, github, replace(caller, actor=SYSTEM, source="system"), installation_id)


def _start(unit: Unit, installation_id: int) -> tuple[Caller | None, datetime]:
    installation = unit.session.get(Installation, installation_id, with_for_update=True)
    if installation is None or installation.organization_id is None:
        return None, unit.now
    installation.sync_started_at = unit.now
    return _caller(unit, installation.organization_id), unit.now


def _caller(unit: Unit, organization_id: str) -> Caller:
    plan = unit.session.get_one(Organization, organization_id).plan
    return Caller(organization_id, CODE_HOST, "code_host", plan=plan)


def _compare(unit: Unit, installation_id: int, covered: list[RepositoryInfo], started: datetime) -> None:
    installation = unit.session.get_one(Installation, installation_id, with_for_update=True)
    if installation.sync_started_at != started:
        return  # one that began later has read, or will read, something newer
    lock_coverage_exclusively(unit)
    known = {row.github_id: row for row in unit.session.scalars(_rows(unit, installation_id, covered))}
    added: list[Repository] = []
    reached: list[Repository] = []
    for info in covered:
        row = known.pop(info.github_id, None)
        if row is None:
            added.append(_new(unit, installation_id, info, started))
        elif _refresh(row, installation_id, info, started):
            reached.append(row)
    gone = [row for row in known.values() if row.removed_at is None]
    for row in gone:
        row.removed_at = unit.now
    unit.session.add_all(added)
    _reach_anew(unit, reached)
    _examine_what_was_not_found(unit, installation_id)
    counts = {"added": len(added), "changed": len(reached), "removed": len(gone)}
    if any(counts.values()):
        name = ("installation", str(installation_id), installation.account)
        unit.audit("repository.synced", name, covered=len(covered), **counts)


def _rows(unit: Unit, installation_id: int, covered: list[RepositoryInfo]) -> Select[Repository]:
    ids = [info.github_id for info in covered]
    return (
        select(Repository)
        .where(
            Repository.organization_id == unit.organization,
            or_(Repository.installation_id == installation_id, Repository.github_id.in_(ids)),
        )
        .order_by(Repository.id)
        .with_for_update()
    )


def _new(unit: Unit, installation_id: int, info: RepositoryInfo, synced_at: datetime) -> Repository:
    return Repository(
        id=new_id("rep"),
        organization_id=unit.organization,
        installation_id=installation_id,
        created_at=unit.now,
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


def _reach_anew(unit: Unit, repositories: Iterable[Repository]) -> None:
    """Let open-ended freezes in force take in branches whose repository has a new name, or is covered again."""
    enabled = [repository.id for repository in repositories if repository.enabled]
    query = select(WatchedBranch.id).where(WatchedBranch.repository_id.in_(enabled))
    branch_ids = unit.session.scalars(query).all() if enabled else []
    if branch_ids:
        take_in(unit, branch_ids)


def _examine_what_was_not_found(unit: Unit, installation_id: int) -> None:
    """Look now at branches that were parked because the code host did not show their repository, which it lists."""
    unit.session.execute(
        text(
            "WITH parked AS (SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
            "WHERE r.installation_id = :installation AND r.removed_at IS NULL AND b.due_at > :now "
            "AND b.last_error_code = 'repository_not_found' ORDER BY b.id FOR NO KEY UPDATE OF b) "
            "UPDATE watched_branches b SET due_at = :now, read_back = true, attempts = 0 "
            "FROM parked WHERE b.id = parked.id"
        ),
        {"now": unit.now, "installation": installation_id},
    )
    unit.wake("reconcile")


def refresh_repository(units: Units, github: GitHub, github_id: int) -> None:
    """Read one repository anew, wherever it is mirrored: its name, its default branch, or that it is gone.

    Where it must not be asked now, a comparison does it later. Raises GitHubError when the code host could not be read.
    """
    with units.open(GITHUB_CALLER) as unit:
        query = select(Repository.id, Repository.installation_id).where(Repository.github_id == github_id)
        rows = unit.session.execute(query).all()
    for repository_id, installation_id in rows:
        try:
            info = paced_client(units, github, installation_id).repository(github_id)
        except HeldBackError:
            with units.open(GITHUB_CALLER) as unit:  # hints are soon given up; a comparison waits
                request_comparison(unit, [installation_id])
            continue
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            info = None
        with units.open(GITHUB_CALLER) as unit:
            caller = _caller(unit, unit.session.get_one(Repository, repository_id).organization_id)
        with units.open(caller) as unit:
            _record(unit, repository_id, info)
        watch_default_branches(units, caller, Repository.id == repository_id)


def _record(unit: Unit, repository_id: str, info: RepositoryInfo | None) -> None:
    [row] = lock_watching(unit, [repository_id])
    account = unit.session.get_one(Installation, row.installation_id).account
    target = ("repository", row.id, row.full_name)
    before = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if info is None or info.owner.lower() != account.lower():  # a public one is readable wherever it has gone
        row.removed_at = row.removed_at or unit.now
    elif row.removed_at is None and _refresh(row, row.installation_id, info, unit.now):
        _reach_anew(unit, [row])
    after = {"fullName": row.full_name, "archived": row.archived, "removed": row.removed_at is not None}
    if before != after:
        unit.audit("repository.synced", target, before=before, after=after)
