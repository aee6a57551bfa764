"""Sealing: giving committed entries their place in their organisation's chain, within seconds of the commit.

One sealer works on an organisation at a time, so a reader sees seals appear in their order and none before another.
Nobody who writes an entry waits for it, or it for them: what is not committed yet is not seen, and gets a later place.
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

logger = logging.getLogger(__name__)

PIECE = 1000
"""Entries that one transaction seals."""
LONGEST = 2.0
"""Seconds of one call: other organisations wait no longer than that behind a crowd of entries."""
LATE = timedelta(hours=1)
"""A seal that is so much younger than its entry is marked: see `AuditSeal.late`."""

# The organisation that was sealed last comes last: a busy one keeps none from its turn.
_WAITING = text("""
    SELECT u.organization_id FROM (SELECT DISTINCT organization_id FROM audit_unsealed) u
    LEFT JOIN LATERAL (SELECT s.sealed_at FROM audit_seals s WHERE s.organization_id = u.organization_id
                       ORDER BY s.sequence DESC LIMIT 1) last ON true
    ORDER BY last.sealed_at NULLS FIRST
""")
_TRY = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:key, 0))")
# Jobs do not wait for the disk; this one does. Somebody who has read a seal goes on behind it, so none may be lost.
_SAFELY = text("SET LOCAL synchronous_commit TO on")
_HEAD = text("""
    SELECT sequence, hash, sealed_at FROM audit_seals WHERE organization_id = :organization
    ORDER BY sequence DESC LIMIT 1
""")
_COMMITTED = text("""
    SELECT e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target, e.request_id, e.details
    FROM audit_unsealed u JOIN audit_entries e ON e.id = u.entry_id
    WHERE u.organization_id = :organization ORDER BY e.at, e.id LIMIT :most
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
    """Seal what has been committed, for two seconds at most; returns how many entries. A chore of the sweeper.

    An organisation whose chain cannot go on is logged, and keeps no other from its turn.
    """
    end, sealed = monotonic() + LONGEST, 0
    with uow_factory.open(SYSTEM_CALLER) as uow:
        waiting = uow.session.scalars(_WAITING).all()
    for organization_id in waiting:
        try:
            sealed += _seal_until(uow_factory, organization_id, end)
        except sqlalchemy.exc.OperationalError:
            raise  # the database is away from all of them
        except Exception:
            logger.exception("entries of an organisation cannot be sealed", extra={"organization": organization_id})
    return sealed


def _seal_until(uow_factory: UnitOfWorkFactory, organization_id: str, end: float) -> int:
    """Seal an organisation's entries piece by piece, until none is left or its time is over."""
    sealed, piece = 0, PIECE
    while piece == PIECE and monotonic() < end:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            piece = _seal_piece(uow, organization_id)
        sealed += piece
    return sealed


def _seal_piece(uow: UnitOfWork, organization_id: str) -> int:
    """Seal some entries of an organisation; returns how many, 0 also where somebody else is at it."""
    uow.session.execute(_SAFELY)
    if not uow.session.scalar(_TRY, {"key": f"audit chain {organization_id}"}):
        return 0
    committed = uow.session.execute(_COMMITTED, {"organization": organization_id, "most": PIECE})
    entries = [row._asdict() for row in committed]
    if entries:
        head = uow.session.execute(_HEAD, {"organization": organization_id}).one_or_none()
        rows = _chained(entries, *(head or (0, GENESIS, uow.now)), now=uow.now)
        uow.session.execute(_SEAL, rows)
        uow.session.execute(_DONE, {"entries": rows["entries"]})
    return len(entries)


def _chained(
    entries: Sequence[Mapping[str, Any]], sequence: int, previous: bytes, sealed_at: datetime, *, now: datetime
) -> dict[str, list[Any]]:
    """Return the columns of the seals of `entries`, behind the one with this sequence, hash and instant."""
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
