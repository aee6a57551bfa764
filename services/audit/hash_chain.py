"""Sealing: committed entries get their position in their organisation's hash chain, within seconds of the commit.

One sealer works on an organisation at a time, so readers see seals appear in order. Writers and the sealer do not wait
for each other: an entry that is not committed yet is not visible to the sealer, and gets a later position. What is
sealed is due for the organisation's destinations of notifications.

A batch has entries of many organisations, as many of each, so that an entry costs the same whatever the number of
organisations and whatever waits. While more waits than one sealer takes in its time, other processes seal beside it:
each organisation has a lock, and those that another one seals are left out.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import sqlalchemy.exc
from sqlalchemy import text

from rules.audit.hash_chain import GENESIS, seal_hash
from services.core.sweep_tasks import request_tasks
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.events.destinations import make_due

logger = logging.getLogger(__name__)

SEALER = "seals"
"""The task of the sweep that seals."""
MORE_SEALERS = ("seals_2", "seals_3", "seals_4")
"""Tasks that do the same beside it, only while it leaves entries."""
BATCH_SIZE = 1000
"""Entries that one transaction seals."""
BATCH_ORGANIZATIONS = 50
"""Organisations that they are of, at most."""
MAX_SECONDS = 2.0
"""Of one call, so that a backlog of entries does not take longer than the lease of the task."""
LATE = timedelta(hours=1)
"""A seal that is more than this younger than its entry is marked as late: see `AuditSeal.late`."""

# The least recently sealed organisation comes first, so that a busy one does not starve the others. Organisations are
# found one after the other in the index: to read the entries that wait would take longer, the more there are.
_WAITING = text("""
    WITH RECURSIVE waiting (organization_id) AS (
        SELECT min(organization_id) FROM audit_unsealed
        UNION ALL
        SELECT (SELECT min(u.organization_id) FROM audit_unsealed u WHERE u.organization_id > w.organization_id)
        FROM waiting w WHERE w.organization_id IS NOT NULL
    )
    SELECT w.organization_id FROM waiting w
    LEFT JOIN LATERAL (SELECT s.sealed_at FROM audit_seals s WHERE s.organization_id = w.organization_id
                       ORDER BY s.sequence DESC LIMIT 1) last ON true
    WHERE w.organization_id IS NOT NULL ORDER BY last.sealed_at NULLS FIRST
""")
_LOCK = text("""
    SELECT organization_id FROM unnest(CAST(:organizations AS text[])) AS w (organization_id)
    WHERE pg_try_advisory_xact_lock(hashtextextended('audit chain ' || organization_id, 0))
""")
# Jobs commit without waiting for the disk, but this one waits: readers continue after the last seal they have read, so
# no seal may be lost.
_DURABLE_COMMIT = text("SET LOCAL synchronous_commit TO on")
_HEADS = text("""
    SELECT w.organization_id, last.sequence, last.hash, last.sealed_at
    FROM unnest(CAST(:organizations AS text[])) AS w (organization_id)
    CROSS JOIN LATERAL (SELECT s.sequence, s.hash, s.sealed_at FROM audit_seals s
                        WHERE s.organization_id = w.organization_id ORDER BY s.sequence DESC LIMIT 1) last
""")
# The order of the index, from where the batch before it ended: to sort what waits would take longer, the more it is,
# and so would passing by what was sealed. OFFSET has each entry looked up: a plan for all entries fits no backlog.
_COMMITTED = text("""
    SELECT e.* FROM unnest(CAST(:organizations AS text[]), CAST(:after AS text[])) AS w (organization_id, after)
    CROSS JOIN LATERAL (SELECT u.entry_id FROM audit_unsealed u
                        WHERE u.organization_id = w.organization_id AND u.entry_id > w.after
                        ORDER BY u.entry_id LIMIT :share) u
    CROSS JOIN LATERAL (SELECT e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target, e.request_id,
                               e.details
                        FROM audit_entries e WHERE e.id = u.entry_id OFFSET 0) e
    ORDER BY e.at, e.id
""")
_SEAL = text("""
    INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at, late,
                             action, actor_id, target_id, source)
    SELECT e.organization_id, s.*, e.action, e.actor_id, e.target_id, e.source
    FROM unnest(CAST(:sequences AS bigint[]), CAST(:entries AS text[]), CAST(:hashes AS bytea[]),
                CAST(:previous AS bytea[]), CAST(:instants AS timestamptz[]), CAST(:late AS boolean[]))
        AS s (sequence, entry_id, hash, previous_hash, sealed_at, late)
    CROSS JOIN LATERAL (SELECT * FROM audit_entries e WHERE e.id = s.entry_id OFFSET 0) e
""")
_DONE = text("DELETE FROM audit_unsealed WHERE entry_id = ANY(:entries)")
_BEGINNING = ""
"""Before the id of any entry."""


def seal_entries(uow_factory: UnitOfWorkFactory) -> int:
    """Seal committed entries for at most two seconds; return their number. A task of the sweep.

    A failure of one organisation's chain is logged, and does not affect the others.
    """
    end, sealed = monotonic() + MAX_SECONDS, 0
    with uow_factory.open(SYSTEM_CALLER) as uow:
        waiting = dict.fromkeys(uow.session.scalars(_WAITING), _BEGINNING)
    while waiting and monotonic() < end:
        batch = {organization_id: waiting.pop(organization_id) for organization_id in [*waiting][:BATCH_ORGANIZATIONS]}
        number, left = _seal_isolated(uow_factory, batch)
        sealed += number
        waiting |= left
    if waiting:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            request_tasks(uow, SEALER, *MORE_SEALERS)
    return sealed


def _seal_isolated(uow_factory: UnitOfWorkFactory, after: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Seal a batch, and if that fails each organisation's entries by themselves; return what `_seal_batch` does."""
    try:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            return _seal_batch(uow, after)
    except sqlalchemy.exc.OperationalError:
        raise  # the database is unavailable for all of them
    except Exception:
        if len(after) == 1:
            logger.exception("sealing the entries of an organisation failed", extra={"organization": next(iter(after))})
            return 0, {}
    done = [_seal_isolated(uow_factory, {organization_id: entry}) for organization_id, entry in after.items()]
    return sum(number for number, _ in done), {key: value for _, left in done for key, value in left.items()}


def _seal_batch(uow: UnitOfWork, after: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Seal entries of some organisations, those after the given entry of each.

    Return their number, and the last entry of each organisation that may have more. Organisations that another sealer
    works on are left out.
    """
    uow.session.execute(_DURABLE_COMMIT)
    organizations = uow.session.scalars(_LOCK, {"organizations": list(after)}).all()
    share = max(1, BATCH_SIZE // max(1, len(organizations)))
    places = {"organizations": organizations, "after": [after[each] for each in organizations], "share": share}
    entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in uow.session.execute(_COMMITTED, places):
        entries[row.organization_id].append(row._asdict())
    if not entries:
        return 0, {}
    heads = {head.organization_id: head[1:] for head in uow.session.execute(_HEADS, {"organizations": [*entries]})}
    rows: dict[str, list[Any]] = defaultdict(list)
    for organization_id, found in entries.items():
        for name, column in _seals(found, *heads.get(organization_id, (0, GENESIS, uow.now)), now=uow.now).items():
            rows[name] += column
    uow.session.execute(_SEAL, rows)
    uow.session.execute(_DONE, {"entries": rows["entries"]})
    make_due(uow, {each: {entry["action"] for entry in found} for each, found in entries.items()})
    last = {each: max(entry["id"] for entry in found) for each, found in entries.items() if len(found) == share}
    return len(rows["entries"]), last


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
