"""Probes on the work queue: the branches of one installation whose rules a worker reads together."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, exists, select, union_all

from models.enforcement import BranchEnforcement, FrozenBranchRuleset, OrganizationStop
from models.installations import Installation
from models.repositories import Repository, WatchedBranch
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import Lease, WorkQueue
from services.github_access.pauses import is_accepted, is_callable

MAX_BRANCHES = 200
"""Branches that one lease holds."""
MAX_STOPPED_BRANCHES = 1000
"""The same of branches whose stop was written: until they are read, nothing says that it holds."""
_DUE = (
    select(
        BranchEnforcement.branch_id,
        BranchEnforcement.organization_id,
        Repository.node_id.label("repository_node_id"),
        (Repository.owner + "/" + Repository.name).label("full_name"),
        WatchedBranch.name.label("branch"),
        WatchedBranch.check_name,
        WatchedBranch.pattern_check_name,
        and_(WatchedBranch.unwatched_at.is_(None), Repository.enabled).label("watched"),
        BranchEnforcement.attempts,
        BranchEnforcement.light,
        BranchEnforcement.required,
        BranchEnforcement.findings,
        BranchEnforcement.ruleset,
        BranchEnforcement.own_rule,
        BranchEnforcement.decisive_check,
        BranchEnforcement.open_ways,
        BranchEnforcement.rules_read_at,
        BranchEnforcement.rules_reported_at,
        BranchEnforcement.stop,
        Repository.rulesets_authorized_at.is_not(None).label("authorized"),
        Installation.id.label("installation_id"),
    )
    .join(WatchedBranch, WatchedBranch.id == BranchEnforcement.branch_id)
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .join(Installation, Installation.id == Repository.installation_id)
    .where(Repository.removed_at.is_(None))
    .order_by(BranchEnforcement.due_at, BranchEnforcement.branch_id)
)
_UNSEEN_STOPS = union_all(
    select(FrozenBranchRuleset.repository_id).where(
        FrozenBranchRuleset.stop_context.is_not(None), FrozenBranchRuleset.stop_in_force_at.is_(None)
    ),
    select(FrozenBranchRuleset.repository_id)
    .join(OrganizationStop, OrganizationStop.id == FrozenBranchRuleset.organization_stop_id)
    .where(OrganizationStop.stop_context.is_not(None), OrganizationStop.stop_in_force_at.is_(None)),
)
"""The repositories whose stop is written and not seen yet; partial indexes hold these stops."""
PROBES = WorkQueue("verify", BranchEnforcement, _DUE.where(is_callable(), Repository.id.not_in(_UNSEEN_STOPS)))
# With no such stop, which is nearly always, PostgreSQL reads nothing more; else all rules that are due, at worst.
PROBES_OF_STOPS = WorkQueue(
    "verify", BranchEnforcement, _DUE.where(exists(_UNSEEN_STOPS), is_accepted(), Repository.id.in_(_UNSEEN_STOPS))
)
"""Those that freezes wait for, which do not wait for a share of the rate limit."""


@dataclass(frozen=True, slots=True)
class LeasedProbe:
    """A leased branch, with what the last probe found: columns of `PROBES` by their names."""

    branch_id: str
    organization_id: str
    repository_node_id: str
    full_name: str
    branch: str
    check_name: str
    pattern_check_name: str | None
    watched: bool
    attempts: int
    light: str
    required: bool
    findings: list[dict[str, Any]]
    ruleset: dict[str, Any] | None
    own_rule: bool
    decisive_check: str | None
    open_ways: list[str]
    rules_read_at: datetime | None
    rules_reported_at: datetime | None
    stop: str | None
    authorized: bool
    """Whether an administrator at GitHub has authorised us to write the rulesets of its repository."""

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks that are written on its heads."""
        return (self.check_name,) if self.pattern_check_name is None else (self.check_name, self.pattern_check_name)


@dataclass(frozen=True, slots=True)
class LeasedProbes:
    """Leased branches of one installation."""

    installation_id: int
    lease: Lease
    probes: tuple[LeasedProbe, ...]

    @property
    def started_at(self) -> datetime:
        """When the leases were acquired: what was read is at least as new."""
        return self.lease.acquired_at

    def held(self, uow: UnitOfWork, probes: Collection[LeasedProbe]) -> list[LeasedProbe]:
        """Return the probes whose leases have not ended; their rows stay locked until the commit."""
        held = self.lease.renew(uow, [probe.branch_id for probe in probes])
        return [probe for probe in probes if probe.branch_id in held]


def acquire_probes(uow: UnitOfWork, queue: WorkQueue = PROBES, *, limit: int = MAX_BRANCHES) -> LeasedProbes | None:
    """Lease due branches of the installation that has waited longest; None if none is due."""
    first = queue.first(uow)
    if first is None:
        return None
    lease = queue.acquire(uow, within=(Installation.id, first.installation_id), limit=limit)
    if lease is None:
        return None
    return LeasedProbes(first.installation_id, lease, tuple(_leased_probe(row) for row in lease.rows))


def _leased_probe(row: Row[Any]) -> LeasedProbe:
    return LeasedProbe(**{field.name: getattr(row, field.name) for field in fields(LeasedProbe)})
