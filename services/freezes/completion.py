"""The completion of a freeze as a whole: since when it is enforced, or released, on all of its branches.

A freeze is blocked while every branch of it is, or partly (`rules/freezes/blocking.py`), and enforced while that is so
by checks, which last, and not by a stop. That can end, and begin again. It is released when its checks are, and no stop
of it is left at GitHub. It is recorded, with the audit entries that
people are notified of, by the passes and probes after which it may have changed, and by the sweep, because rules get
old and writes get late without anything happening.

It is recorded in a transaction of its own. A pass of the reconciler holds branches and targets when it finishes the
last one, while a lift of the freeze holds the freeze and waits for the branches: both orders together would deadlock.
"""

import logging
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Literal, LiteralString

from sqlalchemy import select, text

from models.freezes import IN_FORCE, INCOMPLETE, Freeze
from rules.freezes.blocking import BlockingCounts
from services.core.row_locks import lock_freezes
from services.core.savepoints import in_savepoint
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking import count_by_freeze, states_shown
from services.verdicts.blocking_facts import STANDING
from services.verdicts.facts import UNREADABLE
from services.verdicts.lasting_stops import HOLDS_BACK

logger = logging.getLogger(__name__)

MILLISECOND = timedelta(milliseconds=1)
BATCH_SIZE = 50
"""Freezes that are looked at together."""

_OF_BRANCHES = text(f"""
    SELECT DISTINCT f.id FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
    WHERE t.branch_id = ANY(:branches) AND {IN_FORCE}
""")  # noqa: S608 - a constant
_IS_RELEASED: LiteralString = f"""
    f.ended_at IS NOT NULL AND f.released_at IS NULL
    AND NOT EXISTS (SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state IN ('releasing', 'failed'))
    AND NOT {HOLDS_BACK}
"""
_COMPLETED = text(f"""
    WITH released AS (
        UPDATE freezes f SET released_at = :now WHERE f.id = ANY(:freezes) AND {_IS_RELEASED} RETURNING f.id
    )
    SELECT id, true FROM released
    UNION ALL
    SELECT f.id, false FROM freezes f
    WHERE f.id = ANY(:freezes) AND f.enforced_at IS NULL AND f.ended_at IS NULL AND NOT f.targets_pending
      AND NOT EXISTS (
        SELECT FROM freeze_targets t WHERE t.freeze_id = f.id AND t.state IN ('pending', 'failed'))
""")  # noqa: S608 - a constant
_NUMBERS_WRITTEN = text("""
    SELECT f.id, f.organization_id, f.started_at, f.ended_at, count(*) AS branches, sum(t.heads_written) AS heads
    FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id WHERE f.id = ANY(:freezes) GROUP BY f.id ORDER BY f.id
""")
_UNRELEASED = text(f"SELECT f.id FROM freezes f WHERE {INCOMPLETE} AND {_IS_RELEASED} LIMIT 500")  # noqa: S608 - constants
_UNRELEASED_OF = text(f"""
    SELECT DISTINCT f.id FROM watched_branches b
    JOIN freeze_targets t ON t.branch_id = b.id AND t.operation = 'release' JOIN freezes f ON f.id = t.freeze_id
    WHERE b.repository_id = ANY(:repositories) AND {INCOMPLETE} AND f.ended_at IS NOT NULL
""")  # noqa: S608 - a constant
_NEXT_IN_FORCE = text(f"""
    SELECT f.id FROM freezes f WHERE f.ended_at IS NULL AND {IN_FORCE} AND f.id > :after ORDER BY f.id LIMIT :limit
""")  # noqa: S608 - a constant


# Without those that are recorded as open, and have a branch that lets something in. The first one that is found is
# enough: PostgreSQL may answer EXISTS from a list of all of them.
_OF_HELD_BRANCHES = text(f"""
    SELECT f.id FROM freezes f
    WHERE f.id IN (SELECT freeze_id FROM freeze_targets WHERE branch_id = ANY(:branches)) AND {IN_FORCE}
      AND (f.blocked_at IS NOT NULL OR f.enforced_at IS NOT NULL OR f.unprotected_causes IS NULL OR (
        SELECT t.branch_id FROM freeze_targets t
        JOIN branch_enforcement seen ON seen.branch_id = t.branch_id
        JOIN watched_branches b ON b.id = t.branch_id JOIN repositories r ON r.id = b.repository_id
        WHERE t.freeze_id = f.id AND seen.stop IS NULL AND NOT r.archived AND {STANDING} LIMIT 1) IS NULL)
""")  # noqa: S608 - constants of ours


def freezes_of_branches(uow: UnitOfWork, branch_ids: Collection[str]) -> list[str]:
    """Return the ids of the freezes in force that cover some of these branches."""
    return list(uow.session.scalars(_OF_BRANCHES, {"branches": list(branch_ids), "now": uow.now}))


def record_enforcement_on(uow: UnitOfWork, branch_ids: Collection[str], *, are_held: bool = False) -> None:
    """Record which freezes in force that cover these branches are enforced now, or not any more.

    Where stops hold these branches (`are_held`), nothing is worse than before, and a freeze that was not blocked is not
    counted while another branch of it is neither stopped nor blocked: to find one costs less.
    """
    record_enforcement(uow, (_freezes_of_held if are_held else freezes_of_branches)(uow, branch_ids))


def _freezes_of_held(uow: UnitOfWork, branch_ids: Collection[str]) -> Collection[str]:
    """Return the ids of the freezes to be counted of these branches; all if exceptions cannot be read."""
    values = {"branches": list(branch_ids), "now": uow.now, "due": []}
    return in_savepoint(
        uow.session,
        lambda: uow.session.scalars(_OF_HELD_BRANCHES, values).all(),
        otherwise=lambda: freezes_of_branches(uow, branch_ids),
        failure=UNREADABLE,
    )


def mark_complete(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Record which of these freezes are enforced or released on all of their branches, after checks were written.

    They are locked before: of two workers that finish the last two targets at once, the second sees what the first has
    done. A freeze that has targets to write is not counted, because that costs more than finding one of them.
    """
    if freeze_ids:
        lock_freezes(uow, freeze_ids)
        completed = uow.session.execute(_COMPLETED, {"freezes": list(freeze_ids), "now": uow.now}).all()
        _record_locked(uow, [freeze_id for freeze_id, is_released in completed if not is_released])
        _log_written(uow, [freeze_id for freeze_id, is_released in completed if is_released], "released")


def record_enforcement(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Record which of these freezes are enforced now, or not any more, and audit it.

    They are counted before any is locked, and again once those are locked of which something has to be recorded.
    """
    found = _in_force(uow, freeze_ids)
    changed = [freeze.id for freeze, counts in found if _differs(freeze, counts)]
    if changed:
        lock_freezes(uow, changed)
        _record_locked(uow, changed)


def _record_locked(uow: UnitOfWork, freeze_ids: Collection[str]) -> None:
    """Record which of these locked freezes are enforced now, or not any more."""
    if not freeze_ids:
        return
    found = _in_force(uow, freeze_ids)
    for freeze, counts in found:
        if _differs(freeze, counts):
            with uow.act_as_service(organization_id=freeze.organization_id):
                _record(uow, freeze, counts)
    _log_written(uow, [freeze.id for freeze, _ in found if freeze.first_enforced_at == uow.now], "enforced")


def _log_written(uow: UnitOfWork, freeze_ids: Collection[str], state: Literal["enforced", "released"]) -> None:
    """Log of each freeze what was written, and for how long that took since its start or its end."""
    if not freeze_ids:
        return
    for row in uow.session.execute(_NUMBERS_WRITTEN, {"freezes": list(freeze_ids)}):
        since = row.ended_at if state == "released" else row.started_at
        written = {"branches": row.branches, "heads": row.heads, "milliseconds": (uow.now - since) / MILLISECOND}
        logger.info("freeze", extra={"freeze": row.id, "organization": row.organization_id, "state": state, **written})


def _in_force(uow: UnitOfWork, freeze_ids: Collection[str]) -> list[tuple[Freeze, BlockingCounts]]:
    query = (
        select(Freeze)
        .where(Freeze.id.in_(list(freeze_ids)), Freeze.is_in_force(uow.now))
        .order_by(Freeze.id)
        .execution_options(populate_existing=True)
    )
    freezes = uow.session.scalars(query).all()
    counts = _count(uow, [freeze.id for freeze in freezes])
    return [(freeze, counts[freeze.id]) for freeze in freezes]


def _count(uow: UnitOfWork, freeze_ids: Collection[str]) -> Mapping[str, BlockingCounts]:
    """Return the counts of freezes; if exceptions cannot be read, none is applied, as to verdicts."""
    return in_savepoint(
        uow.session,
        lambda: count_by_freeze(uow.session, freeze_ids, uow.now),
        otherwise=lambda: count_by_freeze(uow.session, freeze_ids, uow.now, without_exceptions=True),
        failure=UNREADABLE,
    )


def _is_enforced(freeze: Freeze, counts: BlockingCounts) -> bool:
    return counts.is_enforced and not freeze.targets_pending


def _is_blocked(freeze: Freeze, counts: BlockingCounts) -> bool:
    return counts.is_blocked and not freeze.targets_pending


def _differs(freeze: Freeze, counts: BlockingCounts) -> bool:
    """True if something of a freeze has to be recorded."""
    if _is_blocked(freeze, counts) != (freeze.blocked_at is not None):
        return True
    if _is_enforced(freeze, counts):
        return freeze.enforced_at is None
    reported = freeze.unprotected_causes
    return freeze.enforced_at is not None or reported is None or not set(reported).issuperset(counts.reported_causes)


def _record(uow: UnitOfWork, freeze: Freeze, counts: BlockingCounts) -> None:
    """Record what a locked freeze is now. A freeze from before an upgrade is recorded in silence, once."""
    silent, reported = freeze.unprotected_causes is None, freeze.unprotected_causes or []
    target = ("freeze", freeze.id, freeze.reason)
    since, was_blocked = freeze.blocked_at or freeze.enforced_at or uow.now, freeze.blocked_at is not None
    freeze.blocked_at = since if _is_blocked(freeze, counts) else None
    if _is_enforced(freeze, counts):
        again = freeze.first_enforced_at is not None
        freeze.enforced_at, freeze.unprotected_causes = freeze.enforced_at or uow.now, []
        freeze.first_enforced_at = freeze.first_enforced_at or uow.now
        if not silent and (reported or not again):
            times = {"startedAt": freeze.started_at, "blockedAt": freeze.blocked_at, "enforcedAt": uow.now}
            uow.audit("freeze.enforced", target, **_numbers(counts), **times)
        return
    freeze.enforced_at = None
    if freeze.blocked_at is not None and not was_blocked and not silent:
        times = {"startedAt": freeze.started_at, "blockedAt": freeze.blocked_at}
        uow.audit("freeze.blocked", target, **_numbers(counts), **times)
    new = [cause for cause in counts.reported_causes if cause not in reported]
    freeze.unprotected_causes = [*reported, *new]
    if new and not silent:
        uow.audit("freeze.unprotected", target, **_numbers(counts), causes=new, startedAt=freeze.started_at)


def _numbers(counts: BlockingCounts) -> dict[str, Any]:
    """Return what the audit says of the branches."""
    return {
        "targets": sum(counts.states.values()),
        **states_shown(counts),
        "late": counts.late,
        "gaps": {gap: branches for (_state, gap), branches in counts.gaps.items()},
    }


def next_in_force(uow: UnitOfWork, after: str) -> list[str]:
    """Return the ids of the next freezes in force, of all organisations, in their order."""
    return list(uow.session.scalars(_NEXT_IN_FORCE, {"after": after, "limit": BATCH_SIZE, "now": uow.now}))


def record_releases(uow: UnitOfWork, repository_ids: Collection[str]) -> None:
    """Record which freezes of branches of these repositories are released, now that no stop is left there."""
    values = {"repositories": list(repository_ids), "now": uow.now}
    mark_complete(uow, uow.session.scalars(_UNRELEASED_OF, values).all())


def repair_releases(uow: UnitOfWork) -> None:
    """Record releases that a worker was about to record when it died."""
    mark_complete(uow, uow.session.scalars(_UNRELEASED, {"now": uow.now}).all())
