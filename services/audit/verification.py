"""Verification of an organisation's audit chain: no entry was changed, removed, inserted or omitted.

All hashes are computed again from the entries. Entries that are cut off at the end together with their seals leave a
shorter, valid chain. To detect that, keep a seal that the API has returned, and pass it as the known seal.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Row, select, text

from models.audit import AuditRemoval
from models.organizations import Organization
from rules.audit.hash_chain import GENESIS, seal_hash
from services.audit.hash_chain import LATE
from services.core.unit_of_work import UnitOfWork
from services.offboarding.deletion import PURGE_DELAY

SEALED_WITHIN = timedelta(minutes=1)
"""An older entry without a seal is an error; most are sealed after a second or two."""
ROWS_PER_FETCH = 2000
"""There may be millions of seals."""

_BEGINNING = datetime.min.replace(tzinfo=UTC)
NO_TIMEOUT = text("SET LOCAL statement_timeout = 0")
_CHAIN = text("""
    SELECT s.sequence, s.entry_id, s.hash, s.previous_hash, s.sealed_at,
           s.sealed_at >= e.at AND s.late = (s.sealed_at - e.at > :late) AS in_time,
           (s.action, s.actor_id, s.target_id, s.source) IS NOT DISTINCT FROM
               (e.action, e.actor_id, e.target_id, e.source) AS filters_match,
           e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target, e.request_id, e.details
    FROM audit_seals s LEFT JOIN audit_entries e ON e.id = s.entry_id
    WHERE s.organization_id = :organization AND s.sequence > :after ORDER BY s.sequence
""")
_UNSEALED = text("""
    SELECT e.id, e.at FROM audit_entries e
    WHERE e.organization_id = :organization AND e.at < :before
      AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.entry_id = e.id)
    ORDER BY e.at, e.id LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class ChainError:
    """The first error: a `missing` seal or entry, a `broken` link, or an entry that was left `unsealed`."""

    kind: Literal["broken", "missing", "unsealed"]
    entry_id: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two seals of a chain: number, hash and instant of the seal before it."""

    sequence: int = 0
    hash: bytes = GENESIS
    sealed_at: datetime = _BEGINNING


@dataclass(frozen=True, slots=True)
class KnownSeal:
    """A seal that the API has returned before; the chain must still contain it."""

    sequence: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Verification:
    """The result for one organisation."""

    organization_id: str
    slug: str
    sealed: int
    """Valid seals, counted from the first that there ever was."""
    removed: int
    """How many of them left the database after an export."""
    head: bytes
    """The hash of the last valid seal."""
    errors: tuple[ChainError, ...]


def chained_organizations(uow: UnitOfWork, reference: str | None) -> list[Row[str, str]]:
    """Return id and slug of the organisation with this id or slug, or of all; without those that are being purged."""
    query = select(Organization.id, Organization.slug).where(
        Organization.purged_at.is_(None),
        Organization.deleted_at.is_(None) | (Organization.deleted_at > uow.now - PURGE_DELAY),
    )
    if reference is not None:
        query = query.where((Organization.id == reference) | (Organization.slug == reference))
    return list(uow.session.execute(query.order_by(Organization.id)))


def start_of_chain(uow: UnitOfWork, organization_id: str) -> Position:
    """Return where an organisation's chain begins: behind the seals that left the database, if any did."""
    last = (
        select(AuditRemoval)
        .where(AuditRemoval.organization_id == organization_id)
        .order_by(AuditRemoval.sequence.desc())
        .limit(1)
    )
    found = uow.session.scalar(last)
    return Position() if found is None else Position(found.sequence, found.hash, found.sealed_at)


def verify(uow: UnitOfWork, organization_id: str, slug: str, known: KnownSeal | None = None) -> Verification:
    """Check the chain from its start to the first error, and find the first entry without a seal.

    `known` is a seal returned earlier: without one, a chain that was cut off at its end cannot be detected.
    """
    uow.session.execute(NO_TIMEOUT)
    start = start_of_chain(uow, organization_id)
    sealed, head, errors = _verify_seals(uow, organization_id, start, known)
    if known is not None and not errors and sealed < known.sequence:
        message = f"the known seal {known.sequence} is missing: the chain ends with seal {sealed}"
        errors.append(ChainError("missing", None, message))
    values = {"organization": organization_id, "before": uow.now - SEALED_WITHIN}
    unsealed = uow.session.execute(_UNSEALED, values).one_or_none()
    if unsealed is not None:
        since = f"{unsealed.at:%Y-%m-%d %H:%M:%S} UTC"
        errors.append(ChainError("unsealed", unsealed.id, f"{unsealed.id} of {since} has no seal"))
    return Verification(organization_id, slug, sealed, start.sequence, head, tuple(errors))


def _verify_seals(
    uow: UnitOfWork, organization_id: str, start: Position, known: KnownSeal | None
) -> tuple[int, bytes, list[ChainError]]:
    """Return the number of the last valid seal, its hash, and the error of the next."""
    sealed, head, sealed_at = start.sequence, start.hash, start.sealed_at
    if known is not None and (error := _conflict_with_start(start, known)):
        return sealed, head, [error]
    values: dict[str, Any] = {"organization": organization_id, "after": start.sequence, "late": LATE}
    with uow.session.execute(_CHAIN, values, execution_options={"yield_per": ROWS_PER_FETCH}) as chain:
        for seal in chain:
            error = _error_of(seal, sealed + 1, head, sealed_at) or _conflict(seal, known)
            if error is not None:
                return sealed, head, [error]
            sealed, head, sealed_at = seal.sequence, seal.hash, seal.sealed_at
    return sealed, head, []


def _error_of(seal: Row[*tuple[Any, ...]], expected: int, head: bytes, sealed_at: datetime) -> ChainError | None:
    """Return the error of a seal that must have this number and follow this hash and instant, or None."""
    place = f"seal {seal.sequence} of {seal.entry_id}"
    if seal.sequence != expected:
        return ChainError("missing", None, f"seal {expected} is missing; {place} comes next")
    if seal.id is None:
        return ChainError("missing", seal.entry_id, f"the entry of {place} is missing")
    problem: str | None = None
    if seal.previous_hash != head:
        problem = "does not contain the hash of the previous seal"
    elif seal.hash != seal_hash(head, seal._asdict()):
        problem = "does not match its entry"
    elif not seal.in_time or seal.sealed_at < sealed_at:
        problem = "has an instant out of order, so that lists in the order of seals would skip it"
    elif not seal.filters_match:
        problem = "has filter columns that differ from the entry"
    return None if problem is None else ChainError("broken", seal.entry_id, f"{place} {problem}")


def _conflict_with_start(start: Position, known: KnownSeal) -> ChainError | None:
    if known.sequence < start.sequence:
        message = f"the known seal {known.sequence} left the database with an export, as all up to {start.sequence}"
        return ChainError("missing", None, message)
    if known.sequence == start.sequence and known.hash != start.hash:
        return ChainError("broken", None, f"seal {known.sequence}, the last one removed, differs from the known seal")
    return None


def _conflict(seal: Row[*tuple[Any, ...]], known: KnownSeal | None) -> ChainError | None:
    if known is None or seal.sequence != known.sequence or seal.hash == known.hash:
        return None
    return ChainError("broken", seal.entry_id, f"seal {seal.sequence} of {seal.entry_id} differs from the known seal")
