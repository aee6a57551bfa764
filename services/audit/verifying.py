"""Proving the chain of an organisation's audit: nothing was changed, removed, put in between, or left out.

Everything is computed anew from the entries themselves. What is cut off at the end together with its seals leaves a
sound chain that is shorter: who wants to notice that too keeps a seal that the API has told them, and looks for it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import Row, select, text

from models.organizations import Organization
from rules.audit_chain import NOTHING_BEFORE, seal_hash
from services.organization_deletion import PURGED_AFTER
from services.unit import Unit

SEALED_WITHIN = timedelta(minutes=1)
"""An entry that is older and has no seal was forgotten; most have theirs after a second or two."""
_AT_ONCE = 2000
"""Seals that are read together: there may be millions."""

_UNHURRIED = text("SET LOCAL statement_timeout = 0")
_CHAIN = text("""
    SELECT s.sequence, s.entry_id, s.hash, s.previous_hash,
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
class Proof:
    """What was found of one organisation's audit."""

    organization_id: str
    slug: str
    sealed: int
    """Seals that are sound, from the first."""
    head: bytes
    """The hash of the last of them."""
    faults: tuple[Fault, ...]


def chained_organizations(unit: Unit, reference: str | None) -> list[Row[str, str]]:
    """Return id and slug of the organisation of this id or slug, or of all; none that is being erased."""
    query = select(Organization.id, Organization.slug).where(
        Organization.purged_at.is_(None),
        Organization.deleted_at.is_(None) | (Organization.deleted_at > unit.now - PURGED_AFTER),
    )
    if reference is not None:
        query = query.where((Organization.id == reference) | (Organization.slug == reference))
    return list(unit.session.execute(query.order_by(Organization.id)))


def verify(unit: Unit, organization_id: str, slug: str) -> Proof:
    """Walk the chain from its beginning to the first fault, and look for entries that never got a seal."""
    unit.session.execute(_UNHURRIED)
    sealed, head = 0, NOTHING_BEFORE
    faults: list[Fault] = []
    values: dict[str, Any] = {"organization": organization_id, "before": unit.now - SEALED_WITHIN}
    with unit.session.execute(_CHAIN, values, execution_options={"yield_per": _AT_ONCE}) as chain:
        for seal in chain:
            fault = _fault(seal, sealed + 1, head)
            if fault is not None:
                faults.append(fault)
                break
            sealed, head = seal.sequence, seal.hash
    forgotten = unit.session.execute(_FORGOTTEN, values).one_or_none()
    if forgotten is not None:
        since = f"{forgotten.at:%Y-%m-%d %H:%M:%S} UTC"
        faults.append(Fault("unsealed", forgotten.id, f"{forgotten.id} of {since} has no seal"))
    return Proof(organization_id, slug, sealed, head, tuple(faults))


def _fault(seal: Row[*tuple[Any, ...]], expected: int, head: bytes) -> Fault | None:
    """Return what is wrong with a seal that should have this number and follow this hash."""
    place = f"seal {seal.sequence} of {seal.entry_id}"
    if seal.sequence != expected:
        return Fault("missing", None, f"seal {expected} is gone; {place} comes next")
    if seal.id is None:
        return Fault("missing", seal.entry_id, f"the entry of {place} is gone")
    if seal.previous_hash != head:
        return Fault("broken", seal.entry_id, f"{place} does not follow the one before")
    if seal.hash != seal_hash(head, seal._asdict()):
        return Fault("broken", seal.entry_id, f"{place} is not the hash of what the entry says")
    if not seal.findable:
        return Fault("broken", seal.entry_id, f"{place} is found by what the entry does not say")
    return None
