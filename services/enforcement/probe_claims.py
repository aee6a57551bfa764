"""Leases of probes: which branches this worker may read the rules of, and for how long nobody else will.

The end of a lease is its token: it is renewed before each call to the code host, and a result is recorded only for
branches whose lease still ends where this worker left it. So a probe that was overtaken records nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

LEASE = timedelta(seconds=60)
"""Longer than one call to the code host may take (20 s)."""
BRANCHES_PER_PROBE = 200


@dataclass(frozen=True, slots=True)
class ClaimedProbe:
    """A leased branch with what the last probe found; `due_at` tells whether it was asked for anew meanwhile."""

    branch_id: str
    organization_id: str
    repository_node_id: str
    full_name: str
    branch: str
    check_name: str
    watched: bool
    due_at: datetime
    attempts: int
    light: str
    required: bool
    findings: list[dict[str, Any]]
    ruleset: dict[str, Any] | None


@dataclass(slots=True)
class ProbeClaim:
    """Leased branches of one installation; `until` is the token, and moves with every renewal."""

    installation_id: int
    begun: datetime
    until: datetime
    probes: tuple[ClaimedProbe, ...]


_DUE = """
    FROM branch_enforcement e
    JOIN watched_branches b ON b.id = e.branch_id
    JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    WHERE e.probe_due_at <= :now AND (e.probe_lease_until IS NULL OR e.probe_lease_until <= :now)
      AND r.removed_at IS NULL AND i.state = 'active' AND (i.paused_until IS NULL OR i.paused_until <= :now)
"""
_WAITS = text(f"SELECT EXISTS (SELECT {_DUE})")
_FIRST = text(f"SELECT i.id {_DUE} ORDER BY e.probe_due_at, e.branch_id LIMIT 1 FOR UPDATE OF e SKIP LOCKED")
_LEASE = text(f"""
    WITH due AS (
        SELECT e.branch_id, r.node_id, r.owner || '/' || r.name AS full_name, b.name, b.check_name,
               b.unwatched_at IS NULL AND r.enabled AS watched
        {_DUE} AND i.id = :installation
        ORDER BY e.probe_due_at, e.branch_id
        LIMIT :most
        FOR UPDATE OF e SKIP LOCKED
    )
    UPDATE branch_enforcement e SET probe_lease_until = :until FROM due WHERE e.branch_id = due.branch_id
    RETURNING e.branch_id, e.organization_id, due.node_id, due.full_name, due.name, due.check_name, due.watched,
              e.probe_due_at, e.probe_attempts, e.light, e.required, e.findings, e.ruleset
""")  # noqa: S608 - both halves are written here
_RENEW = text("""
    WITH mine AS (
        SELECT branch_id FROM branch_enforcement
        WHERE branch_id = ANY(:ids) AND probe_lease_until = :token AND probe_lease_until > :now
        ORDER BY branch_id FOR UPDATE
    )
    UPDATE branch_enforcement e SET probe_lease_until = :until FROM mine WHERE e.branch_id = mine.branch_id
    RETURNING e.branch_id
""")


def probes_wait(uow: UnitOfWork) -> bool:
    """Tell whether a probe is due that nobody is at; for the sweeper."""
    return bool(uow.session.scalar(_WAITS, {"now": uow.now}))


def claim_probes(uow: UnitOfWork, *, most: int = BRANCHES_PER_PROBE) -> ProbeClaim | None:
    """Lease due branches of the installation that has waited longest; None when nothing is due."""
    installation_id = uow.session.scalar(_FIRST, {"now": uow.now})
    if installation_id is None:
        return None
    until = uow.now + LEASE
    values = {"installation": installation_id, "now": uow.now, "until": until, "most": most}
    probes = tuple(ClaimedProbe(*row) for row in uow.session.execute(_LEASE, values))
    return ProbeClaim(installation_id, uow.now, until, probes)


def renew_probes(uow: UnitOfWork, claim: ProbeClaim) -> None:
    """Prolong the leases that still hold."""
    hold(uow, claim, claim.probes, until=uow.now + LEASE)
    claim.until = uow.now + LEASE


def hold(
    uow: UnitOfWork, claim: ProbeClaim, probes: Collection[ClaimedProbe], *, until: datetime | None = None
) -> Sequence[ClaimedProbe]:
    """Return the probes whose leases still hold, and keep their rows locked until the commit."""
    ids = [probe.branch_id for probe in probes]
    values = {"ids": ids, "token": claim.until, "now": uow.now, "until": until or claim.until}
    held = set(uow.session.scalars(_RENEW, values))
    return [probe for probe in probes if probe.branch_id in held]
