"""The rate limiter: keeps the calls of all workers for one installation within GitHub's secondary rate limits.

Every call of a job is recorded before it is made. A pass reserves each call under a lock on the installation, so that
two workers never use the same budget; the lock is taken before any branch is locked. All other jobs call through a
`background_client`, which has only a share of the budget and takes no lock: a few calls too many still leave enough for
verdicts. A pause that one process begins also stops the jobs that are running in others.

Calls on behalf of a request are not recorded (`GitHubLimits` leaves some budget for them), but respect the pause
(`services.github_access.client`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import Lock

from sqlalchemy import text

from integrations.github import Budget, GitHub, InstallationClient
from rules.rate_budget import (
    HOUR,
    MINUTE,
    MUTATION_POINTS,
    NO_WAIT,
    QUERY_POINTS,
    ApiUsage,
    CheckAllowance,
    ContentSetting,
    Counting,
    GitHubLimits,
    background_wait,
    content_of,
    grant_checks,
    is_quota_short,
    stricter_counting,
    wait_for_query,
)
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, LeaseLostError
from services.github_access.failures import ThrottledError, raise_while_paused, require_confirmed
from services.github_access.pauses import time_left

LEARNED_FOR = timedelta(hours=24)
"""How long the counting that was learned from a refusal is used."""
RENEWED_FOR = timedelta(seconds=1)
"""How long after a lease was acquired or renewed nothing has to be renewed before a call that only reads. It lasts for
longer than a call by more than that (`work_queue.SPARE`)."""

# By whole seconds, each counted at its end: a busy minute has thousands of calls, and at most 63 seconds. Of what is
# older only content matters, and most calls create none: where none is counted, no more than the minute is read.
_BUDGET = text("""
    SELECT i.paused_until, i.paused_since, i.refused_until, c.counting, u.at, u.points, u.content
    FROM installations i
    CROSS JOIN LATERAL (
        SELECT CASE WHEN :content <> 'learn' THEN CAST(:content AS text)
                    WHEN i.content_learnt_at > :learnt_since THEN coalesce(i.content_counting, 'off') ELSE 'off' END
    ) AS c (counting)
    LEFT JOIN LATERAL (
        SELECT date_trunc('second', at) + interval '1 second', sum(points), sum(content) FROM github_api_usage
        WHERE installation_id = i.id AND (at > :minute OR content > 0)
          AND at > CASE WHEN c.counting = 'off' THEN CAST(:minute AS timestamptz) ELSE CAST(:hour AS timestamptz) END
        GROUP BY 1
    ) AS u (at, points, content) ON true
    WHERE i.id = :installation ORDER BY u.at
""")
_SAVE_USAGE = text(
    "INSERT INTO github_api_usage (installation_id, at, points, content) "
    "VALUES (:installation, :now, :points, :content)"
)


@dataclass(frozen=True, slots=True)
class _Budget:
    """What calls for an installation depend on: its pause, how created content counts, and its calls.

    Those of the last hour, or of the last minute where created content does not count.
    """

    paused: timedelta = NO_WAIT
    refused: timedelta = NO_WAIT
    counting: Counting = "off"
    usage: Sequence[ApiUsage] = ()


def reserve_checks(uow: UnitOfWork, installation_id: int, limits: GitHubLimits, wanted: int) -> CheckAllowance:
    """Reserve one mutation with up to `wanted` checks; none are granted while the installation has to wait."""
    acquire_lock(uow, f"rate limits {installation_id}")
    budget = _read_budget(uow, installation_id, limits.content)
    if budget.paused > NO_WAIT:
        return CheckAllowance(0, budget.paused)
    grant = grant_checks(limits, budget.counting, budget.usage, uow.now, wanted)
    if grant.checks:
        _save_usage(uow, installation_id, MUTATION_POINTS, content_of(budget.counting, grant.checks))
    return grant


def reserve_query(uow: UnitOfWork, installation_id: int, limits: GitHubLimits) -> timedelta:
    """Reserve one query; return how long it has to wait if it cannot be made now."""
    acquire_lock(uow, f"rate limits {installation_id}")
    budget = _read_budget(uow, installation_id, "off")
    wait = max(budget.paused, wait_for_query(limits, budget.usage, uow.now))
    if wait <= NO_WAIT:
        _save_usage(uow, installation_id, QUERY_POINTS, 0)
    return wait


def background_client(
    uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int, lease: Lease | None = None
) -> InstallationClient:
    """Return the client for background calls, which no merge waits for.

    It records each call before it is made, in a transaction of its own, or raises `ThrottledError` while the
    installation is paused, the share is used up or the rest of the hourly quota is kept for verdicts, and
    `WithheldError` for a write while the database counts as restored. The same transaction renews `lease`, under which
    the calls are made, unless that was done a moment ago and the call only reads; raise `LeaseLostError` if it has
    ended. Only for jobs, and outside any transaction.
    """
    client = github.client(installation_id)
    return client.with_hook(partial(_reserve_share, uow_factory, client, _HeldLease.of(lease)))


def urgent_client(
    uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int, lease: Lease | None = None
) -> InstallationClient:
    """Return the client for the few calls that hold a freeze: they go before everything else, verdicts included.

    It does what `background_client` does, and may use all of the points. A ruleset is no created content, so a pause
    because the budget for checks is used up does not count.
    """
    held = _HeldLease.of(lease)
    return github.client(installation_id).with_hook(partial(_reserve_first, uow_factory, installation_id, held))


@dataclass(slots=True)
class _HeldLease:
    """A lease under which calls are made, several of them at the same time."""

    lease: Lease
    renewed_at: datetime
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, lease: Lease | None) -> "_HeldLease | None":
        return None if lease is None else cls(lease, lease.acquired_at)

    def hold(self, uow: UnitOfWork, *, writes: bool) -> None:
        """Renew the lease where that is due; its rows stay locked until the commit then."""
        with self.lock:
            if not writes and uow.now - self.renewed_at < RENEWED_FOR:
                return
            if not self.lease.renew(uow):
                raise LeaseLostError
            self.renewed_at = uow.now


def _reserve_first(
    uow_factory: UnitOfWorkFactory, installation_id: int, lease: _HeldLease | None, *, writes: bool
) -> None:
    limits = uow_factory.ports[GitHubLimits]
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if lease is not None:
            lease.hold(uow, writes=writes)
        if writes:
            require_confirmed(uow)
        budget = _read_budget(uow, installation_id, "off")
        wait = max(budget.refused, wait_for_query(limits, budget.usage, uow.now))
        if wait > NO_WAIT:
            raise ThrottledError("GitHub's rate limit is used up", wait)
        _save_usage(uow, installation_id, MUTATION_POINTS if writes else QUERY_POINTS, 0)


def _reserve_share(
    uow_factory: UnitOfWorkFactory, client: InstallationClient, lease: _HeldLease | None, *, writes: bool
) -> None:
    installation_id = client.installation_id
    limits = uow_factory.ports[GitHubLimits]
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if lease is not None:
            lease.hold(uow, writes=writes)
        budget = _read_budget(uow, installation_id, limits.content if writes else "off")
        raise_while_paused(budget.paused)
        require_quota(client.budget, uow.now)
        if writes:
            require_confirmed(uow)
        wait = background_wait(limits, budget.counting, budget.usage, uow.now, writes=writes)
        if wait > NO_WAIT:
            raise ThrottledError("The rest of GitHub's rate limit is reserved for verdicts", wait)
        points = MUTATION_POINTS if writes else QUERY_POINTS
        _save_usage(uow, installation_id, points, content_of(budget.counting, 1) if writes else 0)


def require_quota(budget: Budget, now: datetime) -> None:
    """Raise `ThrottledError` while what is left of an hourly quota is kept for verdicts."""
    for quota in (budget.rest, budget.graphql):
        left = timedelta(seconds=(quota.reset_at or 0) - now.timestamp())
        if left > NO_WAIT and is_quota_short(quota.remaining, quota.limit):
            raise ThrottledError("The rest of GitHub's hourly quota is kept for verdicts", left)


def learn_from_refusal(uow: UnitOfWork, installation_id: int, limits: GitHubLimits) -> None:
    """Count created content more strictly for a day, after GitHub has refused a mutation."""
    if limits.content != "learn":
        return
    acquire_lock(uow, f"rate limits {installation_id}")
    mutations = uow.session.execute(
        text(
            "SELECT at, points, content FROM github_api_usage WHERE installation_id = :installation AND at > :since "
            "AND points = :mutation ORDER BY at"
        ),
        {"installation": installation_id, "since": uow.now - HOUR, "mutation": MUTATION_POINTS},
    )
    usage = [ApiUsage(*row) for row in mutations]
    before = _read_budget(uow, installation_id, limits.content).counting
    _learn(uow, installation_id, stricter_counting(before, usage, uow.now, limits))


def learn_from_refused_write(uow: UnitOfWork, installation_id: int, limits: GitHubLimits) -> None:
    """Count requests that write as content for a day, after GitHub has refused one that writes no checks.

    This says nothing about the checks in a mutation: they are counted only after a mutation was refused.
    """
    if limits.content == "learn" and _read_budget(uow, installation_id, limits.content).counting == "off":
        _learn(uow, installation_id, "requests")


def _learn(uow: UnitOfWork, installation_id: int, counting: Counting) -> None:
    uow.session.execute(
        text("UPDATE installations SET content_counting = :counting, content_learnt_at = :now WHERE id = :id"),
        {"counting": counting, "now": uow.now, "id": installation_id},
    )


def _read_budget(uow: UnitOfWork, installation_id: int, content: ContentSetting) -> _Budget:
    since = {"hour": uow.now - HOUR, "minute": uow.now - MINUTE, "learnt_since": uow.now - LEARNED_FOR}
    rows = uow.session.execute(_BUDGET, {"installation": installation_id, "content": content, **since}).all()
    if not rows:
        return _Budget()
    *pause, counting = rows[0][:4]
    usage = [ApiUsage(at, int(points), int(created)) for *_, at, points, created in rows if at is not None]
    return _Budget(*time_left(uow, installation_id, *pause), counting, usage)


def _save_usage(uow: UnitOfWork, installation_id: int, points: int, content: int) -> None:
    uow.session.execute(
        _SAVE_USAGE, {"installation": installation_id, "now": uow.now, "points": points, "content": content}
    )
