"""Sealing: committed entries get their position in their organisation's hash chain, within seconds of the commit.

One sealer works on an organisation at a time, so readers see seals appear in order. Writers and the sealer do not wait
for each other: an entry that is not committed yet is not visible to the sealer, and gets a later position. What is
sealed is due for the organisation's destinations of notifications.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import sqlalchemy.exc
from sqlalchemy import text

from rules.audit.hash_chain import GENESIS, seal_hash
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.events.destinations import make_due

logger = logging.getLogger(__name__)

BATCH_SIZE = 1000
"""Entries that one transaction seals."""
MAX_SECONDS = 2.0
"""Of one call, so that a backlog of entries does not take longer than the lease of the task."""
LATE = timedelta(hours=1)
"""A seal that is more than this younger than its entry is marked as late: see `AuditSeal.late`."""

# The least recently sealed organisation comes first, so that a busy one does not starve the others.
_WAITING = text("""
    SELECT u.organization_id FROM (SELECT DISTINCT organization_id FROM audit_unsealed) u
    LEFT JOIN LATERAL (SELECT s.sealed_at FROM audit_seals s WHERE s.organization_id = u.organization_id
                       ORDER BY s.sequence DESC LIMIT 1) last ON true
    ORDER BY last.sealed_at NULLS FIRST
""")
_TRY = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:key, 0))")
# Jobs commit without waiting for the disk, but this one waits: readers continue after the last seal they have read, so
# no seal may be lost.
_DURABLE_COMMIT = text("SET LOCAL synchronous_commit TO on")
_HEAD = text("""
    SELECT sequence, hash, sealed_at FROM audit_seals WHERE organization_id = :organization
    ORDER BY sequence DESC LIMIT 1
""")
_COMMITTED = text("""
    SELECT e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target, e.request_id, e.details
    FROM audit_unsealed u JOIN audit_entries e ON e.id = u.entry_id
    WHERE u.organization_id = :organization ORDER BY e.at, e.id LIMIT :limit
""")
_SEAL = text("""
    INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at, late,
                             action, actor_id, target_id, source)
    SELECT e.organization_id, s.*, e.action, e.actor_id, e.target_id, e.source
    FROM unnest(CAST(:sequences AS bigint[]), CAST(:entries AS text[]), CAST(:hashes AS bytea[]),
                CAST(:previous AS bytea[]), CAST(:instants AS timestamptz[]), CAST(:late AS boolean[]))
        AS s (sequence, entry_id, hash, previous_hash, sealed_at, late)
    JOIN audit_entries e ON e.id = s.entry_id
""")
_DONE = text("DELETE FROM audit_unsealed WHERE entry_id = ANY(:entries)")


def seal_entries(uow_factory: UnitOfWorkFactory) -> int:
    """Seal committed entries for at most two seconds; return their number. A task of the sweep.

    A failure of one organisation's chain is logged, and does not affect the others.
    """
    end, sealed = monotonic() + MAX_SECONDS, 0
    with uow_factory.open(SYSTEM_CALLER) as uow:
        waiting = uow.session.scalars(_WAITING).all()
    for organization_id in waiting:
        try:
            sealed += _seal_until(uow_factory, organization_id, end)
        except sqlalchemy.exc.OperationalError:
            raise  # the database is unavailable for all of them
        except Exception:
            logger.exception("sealing the entries of an organisation failed", extra={"organization": organization_id})
    return sealed


def _seal_until(uow_factory: UnitOfWorkFactory, organization_id: str, end: float) -> int:
    """Seal an organisation's entries in batches, until none is left or the time is over."""
    sealed, batch = 0, BATCH_SIZE
    while batch == BATCH_SIZE and monotonic() < end:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            batch = _seal_batch(uow, organization_id)
        sealed += batch
    return sealed


def _seal_batch(uow: UnitOfWork, organization_id: str) -> int:
    """Seal a batch of entries of an organisation; return their number, 0 if another sealer holds its lock."""
    uow.session.execute(_DURABLE_COMMIT)
    if not uow.session.scalar(_TRY, {"key": f"audit chain {organization_id}"}):
        return 0
    committed = uow.session.execute(_COMMITTED, {"organization": organization_id, "limit": BATCH_SIZE})
    entries = [row._asdict() for row in committed]
    if entries:
        head = uow.session.execute(_HEAD, {"organization": organization_id}).one_or_none()
        rows = _seals(entries, *(head or (0, GENESIS, uow.now)), now=uow.now)
        uow.session.execute(_SEAL, rows)
        uow.session.execute(_DONE, {"entries": rows["entries"]})
        make_due(uow, organization_id, {entry["action"] for entry in entries})
    return len(entries)


def _seals(
    entries: Sequence[Mapping[str, Any]], sequence: int, previous: bytes, sealed_at: datetime, *, now: datetime
) -> dict[str, list[Any]]:
    """Return the columns of the seals of `entries` that follow the seal with this sequence, hash and instant."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("sequences", "entries", "hashes", "previous", "instants", "late")
    }
    for number, entry in enumerate(entries, sequence + 1):
        current = seal_hash(previous, entry)
        sealed_at = max(sealed_at, now, entry["at"])
        values = (number, entry["id"], current, previous, sealed_at, sealed_at - entry["at"] > LATE)
        for column, value in zip(rows.values(), values, strict=True):
            column.append(value)
        previous = current
    return rows
