"""What confirming a restore would release: the heads that GitHub blocks and that the database allows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import select

from integrations.github import GitHub, GitHubError, InstallationClient
from models.installations import Installation
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.batches import batches
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.github_access.failures import ThrottledError
from services.github_access.rate_limiter import background_client
from services.reconcile.evaluation import CheckUpdate, preview
from services.reconcile.heads import FetchedHeads, HeadKey, fetch_heads, gather_heads
from services.reconcile.leases import LeasedBranch

MAX_WAIT = 60.0
"""Seconds to wait for a share of GitHub's rate limit; what takes longer is reported as not readable."""


@dataclass(frozen=True, slots=True)
class BlockedHead:
    """A check that does not say `success` at GitHub, and would."""

    organization: str
    """The slug of its organisation."""
    pulls: tuple[str, ...]
    """The pull requests, such as `acme/web#12`; none for a commit of a merge queue that names none."""
    branches: tuple[str, ...]
    sha: str
    check_name: str
    shown: str | None
    """What GitHub shows; None if the head has no such check."""


@dataclass(slots=True)
class Preview:
    """What was read."""

    heads: list[BlockedHead] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """What could not be read at GitHub, and why."""


@dataclass(frozen=True, slots=True)
class _Watched:
    organization: str
    repository: str
    branch: LeasedBranch


def preview_release(
    uow_factory: UnitOfWorkFactory, github: GitHub, sleep: Callable[[float], object] = time.sleep
) -> Preview:
    """Return the heads that would be released, as GitHub shows them now; nothing is written."""
    found = Preview()
    with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
        query = select(Installation.id, Installation.account).where(Installation.state == "active")
        installations = uow.session.execute(query.order_by(Installation.id)).all()
    for installation_id, account in installations:
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            watched = _watched(uow, installation_id)
        client = background_client(uow_factory, github, installation_id)
        seen: set[HeadKey] = set()
        for chunk in batches(watched, github.settings.branches_per_query):
            try:
                fetched = _fetch(client, [each.branch for each in chunk], github.settings.app_id, sleep)
            except GitHubError as error:
                found.unreadable.append(f"{account}: {error.message}")
                break
            names = {each.branch.repository_id: (each.organization, each.repository) for each in chunk}
            found.unreadable += [
                f"{names[branch.repository_id][1]}:{branch.name}: {heads.error.message}"
                for branch, heads in fetched
                if heads.error is not None
            ]
            with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
                updates = preview(uow, list(gather_heads(fetched).values()))
            for update in updates:
                if update.verdict_differs and update.conclusion == "success" and update.head.key not in seen:
                    found.heads.append(_blocked(update, *names[update.head.key.repository_id]))
                seen.add(update.head.key)
    return found


def _watched(uow: UnitOfWork, installation_id: int) -> list[_Watched]:
    rows = uow.session.execute(
        select(WatchedBranch, Repository.node_id, Repository.owner, Repository.name, Organization.slug)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(Organization, Organization.id == WatchedBranch.organization_id)
        .where(Repository.installation_id == installation_id, Repository.removed_at.is_(None))
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
    )
    return [_Watched(slug, f"{owner}/{name}", _as_leased(row, node_id)) for row, node_id, owner, name, slug in rows]


def _as_leased(row: WatchedBranch, node_id: str) -> LeasedBranch:
    """Return a branch as a pass would have it that reads it back."""
    return LeasedBranch(
        row.id,
        row.organization_id,
        row.repository_id,
        node_id,
        row.name,
        row.check_name,
        row.pattern_check_name,
        row.wanted_generation,
        read_back=True,
        attempts=0,
    )


def _fetch(
    client: InstallationClient, branches: list[LeasedBranch], app_id: int, sleep: Callable[[float], object]
) -> FetchedHeads:
    """Read heads and their checks; wait while the rest of GitHub's rate limit is reserved for verdicts."""
    while True:
        try:
            return fetch_heads(client, branches, app_id, lambda: None)
        except ThrottledError as error:
            if error.retry_after is None or error.retry_after > MAX_WAIT:
                raise
            sleep(error.retry_after)


def _blocked(update: CheckUpdate, organization: str, repository: str) -> BlockedHead:
    head = update.head
    numbers = sorted({number for path in head.paths for number in path.numbers or ()})
    shown = head.remote_check.conclusion if head.remote_check is not None else None
    return BlockedHead(
        organization,
        tuple(f"{repository}#{number}" for number in numbers),
        tuple(sorted({f"{repository}:{path.branch}" for path in head.paths})),
        head.key.sha,
        head.key.check_name,
        shown,
    )
