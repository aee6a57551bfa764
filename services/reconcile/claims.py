"""Leases: which branches this worker may look at, and for how long nobody else will."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

LEASE = timedelta(seconds=40)
"""Longer than one call to the code host may take (20 s); renewed before each one."""
BRANCHES_PER_PASS = 200
"""A pass serves one installation; the quota lets the others have their turn (I12)."""


@dataclass(frozen=True, slots=True)
class ClaimedBranch:
    """A leased branch, with the generation that this pass will have written when it is done."""

    id: str
    organization_id: str
    repository_id: str
    repository_node_id: str
    name: str
    check_name: str
    generation: int
    read_back: bool
    attempts: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Leased branches of one installation."""

    installation_id: int
    token: str
    branches: tuple[ClaimedBranch, ...]
    best_left: int | None = None
    """How soon the most mergeable of the due branches that were left to others could merge; None: none was left."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """What the App may do in the installation, as it was last told: a token that was bought earlier may do less."""


_NEXT_INSTALLATION = text("""
    SELECT i.id, i.permissions FROM installations i
    WHERE i.state = 'active' AND (i.paused_until IS NULL OR i.paused_until <= :now)
      AND EXISTS (
        SELECT FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        WHERE r.installation_id = i.id AND b.due_at <= :now AND (b.lease_until IS NULL OR b.lease_until <= :now)
      )
    ORDER BY i.served_at NULLS FIRST, i.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
""")

# A lease that is still named when it is claimed has run out, and leaves a worker behind that may still be about to
# write. Whoever takes it over reads back, and somebody looks again once every call of the old worker must have ended,
# whether this claim is finished, fails or makes way, and whatever is asked for between: `look_again_at` stays until a
# claim is made at that time. The wish to read back goes over to the claim, so that one which is made from now on is
# told apart: whoever gives the lease back leaves that one alone.
_LEASE_BRANCHES = text("""
    WITH due AS (
        SELECT b.id, r.node_id, b.lease_token IS NOT NULL AS taken_over,
               b.read_back OR b.lease_token IS NOT NULL OR coalesce(b.look_again_at <= :now, false) AS read_back
        FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        WHERE r.installation_id = :installation AND b.due_at <= :now
          AND (b.lease_until IS NULL OR b.lease_until <= :now)
        ORDER BY (b.wanted_generation = b.written_generation), coalesce(b.waiting_rank, b.merge_rank), b.due_at
        LIMIT :most
        FOR UPDATE OF b SKIP LOCKED
    )
    UPDATE watched_branches b
    SET read_back = false, lease_token = :token, lease_until = :until,
        look_again_at = CASE WHEN due.taken_over THEN CAST(:look_again_at AS timestamptz)
                             WHEN b.look_again_at > :now THEN b.look_again_at END
    FROM due WHERE b.id = due.id
    RETURNING b.id, b.organization_id, b.repository_id, due.node_id, b.name, b.check_name, b.wanted_generation,
              due.read_back, b.attempts
""")


_BEST_LEFT = text("""
    SELECT min(coalesce(b.waiting_rank, b.merge_rank))
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE r.installation_id = :installation AND b.due_at <= :now AND b.wanted_generation <> b.written_generation
      AND (b.lease_until IS NULL OR b.lease_until <= :now)
""")
_OTHERS_WAIT = text("""
    SELECT EXISTS (
        SELECT FROM installations i
        JOIN repositories r ON r.installation_id = i.id
        JOIN watched_branches b ON b.repository_id = r.id
        WHERE i.id <> :installation AND i.state = 'active' AND (i.paused_until IS NULL OR i.paused_until <= :now)
          AND b.due_at <= :now AND (b.lease_until IS NULL OR b.lease_until <= :now)
    )
""")


def claim(uow: UnitOfWork, *, most: int = BRANCHES_PER_PASS) -> Claim | None:
    """Lease due branches of the installation that was served longest ago; None when nothing is due."""
    next_one = uow.session.execute(_NEXT_INSTALLATION, {"now": uow.now}).first()
    if next_one is None:
        return None
    installation_id, permissions = next_one
    uow.session.execute(
        text("UPDATE installations SET served_at = :now WHERE id = :id"), {"now": uow.now, "id": installation_id}
    )
    token = secrets.token_hex(8)
    rows = uow.session.execute(
        _LEASE_BRANCHES,
        {
            "installation": installation_id,
            "now": uow.now,
            "until": uow.now + LEASE,
            "look_again_at": uow.now + LEASE,
            "token": token,
            "most": most,
        },
    )
    branches = tuple(ClaimedBranch(*row) for row in rows)
    best_left = None
    if len(branches) == most:
        best_left = uow.session.scalar(_BEST_LEFT, {"installation": installation_id, "now": uow.now})
    return Claim(installation_id, token, branches, best_left, permissions)


def others_wait(uow: UnitOfWork, installation_id: int) -> bool:
    """Tell whether branches of another installation are due that nobody is at (I12)."""
    return bool(uow.session.scalar(_OTHERS_WAIT, {"installation": installation_id, "now": uow.now}))


def renew(uow: UnitOfWork, token: str, branch_ids: Collection[str]) -> set[str]:
    """Prolong the leases that still hold, and return whose they are; their rows stay locked until the commit.

    Every transaction of a pass begins with this, so that it locks branches as everybody does: in the order of ids.
    """
    rows = uow.session.scalars(
        text(
            "WITH mine AS (SELECT id FROM watched_branches WHERE id = ANY(:ids) AND lease_token = :token "
            "AND lease_until > :now ORDER BY id FOR NO KEY UPDATE) "
            "UPDATE watched_branches b SET lease_until = :until FROM mine WHERE b.id = mine.id RETURNING b.id"
        ),
        {"until": uow.now + LEASE, "ids": list(branch_ids), "token": token, "now": uow.now},
    )
    return set(rows)


def look_again(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Have branches looked at once more, as late as after a lease that ran out; the caller holds their rows."""
    uow.session.execute(
        text("UPDATE watched_branches SET look_again_at = coalesce(look_again_at, :at) WHERE id = ANY(:ids)"),
        {"at": uow.now + LEASE, "ids": list(branch_ids)},
    )
