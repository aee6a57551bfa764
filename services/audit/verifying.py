"""Proving the chain of an organisation's audit: nothing was changed, removed, put in between, or left out.

Everything is computed anew from the entries themselves. What is cut off at the end together with its seals leaves a
sound chain that is shorter: who wants to notice that too keeps a seal that the API has told them, and has it
looked for.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Row, select, text

from models.organizations import Organization
from rules.audit.hash_chain import GENESIS, seal_hash
from services.audit.hash_chain import LATE
from services.core.unit_of_work import UnitOfWork
from services.offboarding.deletion import PURGED_AFTER

SEALED_WITHIN = timedelta(minutes=1)
"""An entry that is older and has no seal was forgotten; most have theirs after a second or two."""
_AT_ONCE = 2000
"""Seals that are read together: there may be millions."""

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_UNHURRIED = text("SET LOCAL statement_timeout = 0")
_CHAIN = text("""
    SELECT s.sequence, s.entry_id, s.hash, s.previous_hash, s.sealed_at,
           s.sealed_at >= e.at AND s.late = (s.sealed_at - e.at > :late) AS in_time,
           (s.action, s.actor_id, s.target_id, s.source) IS NOT DISTINCT FROM
               (e.action, e.actor_id, e.target_id, e.source) AS findable,
           e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target, e.request_id, e.details
    FROM audit_seals s LEFT JOIN audit_entries e ON e.id = s.entry_id
    WHERE s.organization_id = :organization ORDER BY s.sequence
""")
_FORGOTTEN = text("""
    SELECT e.id, e.at FROM audit_entries e
    WHERE e.organization_id = :organization AND e.at < :before
      AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.entry_id = e.id)
    ORDER BY e.at, e.id LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong first: a seal or an entry that is `missing`, a link that is `broken`, an entry left `unsealed`."""

    kind: Literal["broken", "missing", "unsealed"]
    entry_id: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Known:
    """A seal as the API once told it, which has to be there still."""

    sequence: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found of one organisation's audit."""

    organization_id: str
    slug: str
    sealed: int
    """Seals that are sound, from the first."""
    head: bytes
    """The hash of the last of them."""
    faults: tuple[Fault, ...]


def chained_organizations(uow: UnitOfWork, reference: str | None) -> list[Row[str, str]]:
    """Return id and slug of the organisation of this id or slug, or of all; none that is being erased."""
    query = select(Organization.id, Organization.slug).where(
        Organization.purged_at.is_(None),
        Organization.deleted_at.is_(None) | (Organization.deleted_at > uow.now - PURGED_AFTER),
    )
    if reference is not None:
        query = query.where((Organization.id == reference) | (Organization.slug == reference))
    return list(uow.session.execute(query.order_by(Organization.id)))


def verify(uow: UnitOfWork, organization_id: str, slug: str, known: Known | None = None) -> Proof:
    """Walk the chain from its beginning to the first fault, and look for entries that never got a seal.

    `known` is a seal that somebody has kept: without it nobody could tell that the end of the chain was cut off.
    """
    uow.session.execute(_UNHURRIED)
    sealed, head, faults = _walk(uow, organization_id, known)
    if known is not None and not faults and sealed < known.sequence:
        message = f"seal {known.sequence}, which is known, is gone: the chain ends with seal {sealed}"
        faults.append(Fault("missing", None, message))
    values = {"organization": organization_id, "before": uow.now - SEALED_WITHIN}
    forgotten = uow.session.execute(_FORGOTTEN, values).one_or_none()
    if forgotten is not None:
        since = f"{forgotten.at:%Y-%m-%d %H:%M:%S} UTC"
        faults.append(Fault("unsealed", forgotten.id, f"{forgotten.id} of {since} has no seal"))
    return Proof(organization_id, slug, sealed, head, tuple(faults))


def _walk(uow: UnitOfWork, organization_id: str, known: Known | None) -> tuple[int, bytes, list[Fault]]:
    """Return how many seals are sound from the first, the hash of the last of them, and what is wrong with the next."""
    sealed, head, sealed_at = 0, GENESIS, _BEGINNING
    values: dict[str, Any] = {"organization": organization_id, "late": LATE}
    with uow.session.execute(_CHAIN, values, execution_options={"yield_per": _AT_ONCE}) as chain:
        for seal in chain:
            fault = _fault(seal, sealed + 1, head, sealed_at) or _differs(seal, known)
            if fault is not None:
                return sealed, head, [fault]
            sealed, head, sealed_at = seal.sequence, seal.hash, seal.sealed_at
    return sealed, head, []


def _fault(seal: Row[*tuple[Any, ...]], expected: int, head: bytes, sealed_at: datetime) -> Fault | None:
    """Return what is wrong with a seal that should have this number and follow this hash and this instant."""
    place = f"seal {seal.sequence} of {seal.entry_id}"
    if seal.sequence != expected:
        return Fault("missing", None, f"seal {expected} is gone; {place} comes next")
    if seal.id is None:
        return Fault("missing", seal.entry_id, f"the entry of {place} is gone")
    wrong: str | None = None
    if seal.previous_hash != head:
        wrong = "does not follow the one before"
    elif seal.hash != seal_hash(head, seal._asdict()):
        wrong = "is not the hash of what the entry says"
    elif not seal.in_time or seal.sealed_at < sealed_at:
        wrong = "has an instant out of its order: who follows would not find it"
    elif not seal.findable:
        wrong = "is found by what the entry does not say"
    return None if wrong is None else Fault("broken", seal.entry_id, f"{place} {wrong}")


def _differs(seal: Row[*tuple[Any, ...]], known: Known | None) -> Fault | None:
    if known is None or seal.sequence != known.sequence or seal.hash == known.hash:
        return None
    return Fault("broken", seal.entry_id, f"seal {seal.sequence} of {seal.entry_id} is another than the known one")
