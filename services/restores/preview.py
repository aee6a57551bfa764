"""What confirming a restore would release: the heads that GitHub blocks and that the database allows."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from integrations.github import BranchRef, GitHub, GitHubError, InstallationClient
from models.installations import Installation
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.batches import batches
from rules.freezes.merge_rank import GROUP
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.github_access.failures import ThrottledError
from services.github_access.rate_limiter import background_client
from services.reconcile.evaluation import CheckUpdate, preview
from services.reconcile.heads import Head, HeadKey, MergePath
from services.reconcile.leases import BranchToRead
from services.reconcile.mirror import FetchedHeads, queue_entries, rank_of, shown_checks

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
    check_names: tuple[str, ...]
    branch: BranchToRead


def preview_release(uow_factory: UnitOfWorkFactory, github: GitHub) -> Preview:
    """Return the heads that would be released, as GitHub shows them now; nothing is written."""
    found = Preview()
    with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
        query = select(Installation.id, Installation.account).where(Installation.state == "active")
        installations = uow.session.execute(query.order_by(Installation.id)).all()
    for installation_id, account in installations:
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            watched = {each.branch.id: each for each in _watched(uow, installation_id)}
        client = background_client(uow_factory, github, installation_id)
        read: FetchedHeads = []
        for chunk in batches(list(watched.values()), github.settings.branches_per_query):
            try:
                read += _fetch(client, [each.branch for each in chunk], github.settings.app_id)
            except GitHubError as error:
                found.unreadable.append(f"{account}: {error.message}")
                break
        found.unreadable += [
            f"{watched[branch.id].repository}:{branch.name}: {heads.error.message}"
            for branch, heads in read
            if heads.error is not None
        ]
        names = {each.branch.repository_id: (each.organization, each.repository) for each in watched.values()}
        with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            updates = preview(uow, _gather(read, watched))
        found.heads += [
            _blocked(update, *names[update.head.key.repository_id])
            for update in updates
            if update.verdict_differs and update.conclusion == "success"
        ]
    return found


def _watched(uow: UnitOfWork, installation_id: int) -> list[_Watched]:
    rows = uow.session.execute(
        select(WatchedBranch, Repository.node_id, Repository.owner, Repository.name, Organization.slug)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(Organization, Organization.id == WatchedBranch.organization_id)
        .where(Repository.installation_id == installation_id, Repository.removed_at.is_(None))
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
    )
    return [
        _Watched(slug, f"{owner}/{name}", row.check_names, _to_read(row, node_id))
        for row, node_id, owner, name, slug in rows
    ]


def _to_read(row: WatchedBranch, node_id: str) -> BranchToRead:
    return BranchToRead(
        row.id,
        row.organization_id,
        row.repository_id,
        node_id,
        row.name,
        own_check=None,
        pattern_check=None,
        read_back=True,
    )


def _gather(read: FetchedHeads, watched: Mapping[str, _Watched]) -> list[Head]:
    """Return the heads of what was read, as a pass would have them that has mirrored it."""
    heads: dict[HeadKey, Head] = {}
    shown = shown_checks(read)
    for branch, found in read:
        paths: list[tuple[str, int, tuple[int, ...] | None, bool]] = [
            (pull.head_sha, rank_of(pull), (pull.number,), False) for pull in found.pulls
        ]
        entries = queue_entries(found.queue).items()
        paths += [(sha, GROUP, None if numbers is None else tuple(numbers), True) for sha, (_, numbers) in entries]
        for name in watched[branch.id].check_names:
            for sha, rank, numbers, queued in paths:
                key = HeadKey(branch.repository_id, name, sha)
                if key not in heads:
                    heads[key] = Head(key, 0, branch.repository_node_id, branch.id, branch.organization_id, rank)
                    heads[key].show(shown)
                heads[key].paths.append(MergePath(branch.id, branch.name, numbers, queued))
    return list(heads.values())


def _fetch(client: InstallationClient, branches: list[BranchToRead], app_id: int) -> FetchedHeads:
    """Read heads and their checks; wait while the rest of GitHub's rate limit is reserved for verdicts."""
    while True:
        try:
            wanted = [BranchRef(branch.repository_node_id, branch.name) for branch in branches]
            return list(zip(branches, client.open_heads(wanted, read_back_app_id=app_id), strict=True))
        except ThrottledError as error:
            if error.retry_after is None or error.retry_after > MAX_WAIT:
                raise
            time.sleep(error.retry_after)


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
