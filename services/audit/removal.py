"""Removal of archived entries from the database.

First the end of the range is recorded, only by the owner of the schema; from then on the chain begins behind it. Then
the rows are deleted in batches, which the database allows for such a range. If the deletion is interrupted, the same
archive continues it.
"""

from typing import Any, cast

from sqlalchemy import CursorResult, insert, select, text

from models.audit import AuditRemoval
from models.notifications import NotificationDestination
from models.organizations import Organization
from rules.access.permissions import Actor
from services.audit.archive import RETENTION, Archive, ArchiveError, last_removable
from services.audit.verification import KnownSeal, start_of_chain, verify
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory

BATCH_SIZE = 1000
"""Entries that one transaction deletes."""
_AS_OWNER, _AS_WORKER = text("SET LOCAL ROLE NONE"), text("SET LOCAL ROLE change_freeze_worker")
_DELETE = text("""
    WITH batch AS (
        SELECT sequence, entry_id FROM audit_seals
        WHERE organization_id = :organization AND sequence <= :last ORDER BY sequence LIMIT :limit
    ), entries AS (
        DELETE FROM audit_entries e USING batch WHERE e.id = batch.entry_id
    )
    DELETE FROM audit_seals s USING batch WHERE s.organization_id = :organization AND s.sequence = batch.sequence
""")


def remove_archived(uow_factory: UnitOfWorkFactory, archive: Archive, *, by: str) -> int:
    """Remove the entries of an archive that was read and verified; return how many rows were deleted.

    `uow_factory` belongs to the owner of the schema, in the role of jobs. Raise ArchiveError if the archive is not of
    this database, leaves something out, or has entries that are still needed.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        acquire_lock(uow, f"audit removal {archive.organization_id}")
        if start_of_chain(uow, archive.organization_id) != archive.last:
            _require_removable(uow, archive)
            _record(uow, archive, by)
    deleted = batch = _delete_batch(uow_factory, archive)
    while batch == BATCH_SIZE:
        batch = _delete_batch(uow_factory, archive)
        deleted += batch
    return deleted


def _require_removable(uow: UnitOfWork, archive: Archive) -> None:
    organization = uow.session.get(Organization, archive.organization_id)
    if organization is None or organization.deleted_at is not None:
        raise ArchiveError(f"The file is not of this database: it has no organisation {archive.organization_id}.")
    start = start_of_chain(uow, organization.id)
    if archive.start.sequence != start.sequence:
        raise ArchiveError(
            f"The file begins after seal {archive.start.sequence}, but the database after seal {start.sequence}: "
            "nothing may be left out. Export again."
        )
    known = KnownSeal(archive.last.sequence, archive.last.hash)
    errors = verify(uow, organization.id, organization.slug, known).errors
    if archive.start != start or errors:
        found = f": {errors[0].message}" if errors else ""
        raise ArchiveError(f"The file is not of this database, or the chain is not valid{found}.")
    if archive.last.sequence > last_removable(uow, organization.id):
        raise ArchiveError(
            f"The file has entries that plans still show, for {RETENTION.days} days, or the newest one of all."
        )
    waiting = uow.session.scalars(
        select(NotificationDestination.id).where(
            NotificationDestination.organization_id == organization.id,
            NotificationDestination.due_at.is_not(None),
            NotificationDestination.sequence < archive.last.sequence,
        )
    ).all()
    if waiting:
        raise ArchiveError(f"Destinations of notifications have not read these entries: {', '.join(waiting)}.")


def _record(uow: UnitOfWork, archive: Archive, by: str) -> None:
    uow.session.execute(_AS_OWNER)
    uow.session.execute(
        insert(AuditRemoval).values(
            organization_id=archive.organization_id,
            sequence=archive.last.sequence,
            hash=archive.last.hash,
            sealed_at=archive.last.sealed_at,
            file_sha256=archive.digest,
            removed_by=by,
            recorded_at=uow.now,
        )
    )
    uow.session.execute(_AS_WORKER)
    uow.bind_organization(archive.organization_id, Actor("support", None, by))
    organization = uow.session.get_one(Organization, archive.organization_id)
    uow.audit(
        "audit.entries_removed",
        ("organization", organization.id, organization.name),
        first=archive.start.sequence + 1,
        last=archive.last.sequence,
        hash=archive.last.hash.hex(),
        fileSha256=archive.digest.hex(),
    )


def _delete_batch(uow_factory: UnitOfWorkFactory, archive: Archive) -> int:
    values = {"organization": archive.organization_id, "last": archive.last.sequence, "limit": BATCH_SIZE}
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return cast(CursorResult[Any], uow.session.execute(_DELETE, values)).rowcount
