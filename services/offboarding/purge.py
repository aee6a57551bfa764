"""Erasing the data of an organisation 30 days after its deletion, piece by piece.

Every table whose rows name an organisation is emptied of it, the audit too; the tables are taken from the models, so
that a new one enters by itself. What is left is one row that says when: an id, and no name. People keep their accounts
and their other organisations. Each piece is a transaction of its own, and whoever comes next goes on where one stopped.
"""

import logging
from collections.abc import Iterator
from time import monotonic
from typing import Any, cast

import sqlalchemy.exc
from sqlalchemy import CursorResult, Table, select, text

from models import Base
from models.organizations import Organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.offboarding.deletion import PURGED_AFTER

logger = logging.getLogger(__name__)

LONGEST = 1.0
"""Seconds of one sweep: freezes have to end on time meanwhile."""
PIECE = 2000
"""Rows that one transaction erases."""
REFERENCED_PIECE = 50
"""The same of a table that others refer to: each row is looked for in all of those."""

# Nothing is to be written for it any more while it is erased.
_STOP = "UPDATE installations SET state = 'removed' WHERE organization_id = :organization AND state <> 'removed'"
_OF_INSTALLATIONS = "installation_id IN (SELECT id FROM installations WHERE organization_id = :organization)"
_FIRST = (
    f"DELETE FROM github_api_usage WHERE {_OF_INSTALLATIONS}",  # noqa: S608 - a constant of ours
    f"DELETE FROM webhook_deliveries WHERE {_OF_INSTALLATIONS}",  # noqa: S608 - the same
    "DELETE FROM sessions WHERE organization_id = :organization AND kind = 'support'",
    "UPDATE sessions SET organization_id = NULL WHERE organization_id = :organization",
)
_KEPT = ("organizations", "sessions")


def purge_deleted(uow_factory: UnitOfWorkFactory) -> bool:
    """Erase some of what is due; False when nothing is left to erase."""
    end = monotonic() + LONGEST
    try:
        while _erase_a_piece(uow_factory):
            if monotonic() > end:
                return True
    except sqlalchemy.exc.IntegrityError as error:
        logger.warning("somebody wrote what is being erased; it is erased in the next sweep: %s", error.orig)
        return True
    return False


def _erase_a_piece(uow_factory: UnitOfWorkFactory) -> bool:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(Organization)
            .where(Organization.deleted_at <= uow.now - PURGED_AFTER, Organization.purged_at.is_(None))
            .order_by(Organization.deleted_at, Organization.id)
            .limit(1)
            .with_for_update(key_share=True, skip_locked=True)
        )
        organization = uow.session.scalars(query).one_or_none()
        if organization is None:
            return False
        if not _erase_rows(uow, organization.id):
            organization.name, organization.slug, organization.settings = "", organization.id, {}
            organization.purged_at = uow.now
            logger.info("organisation %s was purged", organization.id)
    return True


def _erase_rows(uow: UnitOfWork, organization_id: str) -> bool:
    """Erase at most a piece; False when no row is left."""
    values = {"organization": organization_id}
    for statement in (_STOP, *_FIRST):
        uow.session.execute(text(statement), values)
    room = PIECE
    for table in erased_tables():
        most = min(room, REFERENCED_PIECE) if _is_referenced(table) else room
        piece = f"SELECT ctid FROM {table.name} WHERE organization_id = :organization LIMIT :most"  # noqa: S608 - our own
        erasing = text(f"DELETE FROM {table.name} WHERE ctid IN ({piece})")  # noqa: S608 - the same
        erased = cast(CursorResult[Any], uow.session.execute(erasing, {**values, "most": most})).rowcount
        room -= erased
        if erased == most:
            return True  # there may be more, and what it refers to has to wait
    return room < PIECE


def erased_tables() -> Iterator[Table]:
    """Yield every table whose rows are erased, those that refer to others first."""
    for table in reversed(Base.metadata.sorted_tables):
        if "organization_id" in table.columns and table.name not in _KEPT:
            yield table


def _is_referenced(table: Table) -> bool:
    return any(key.column.table is table for other in Base.metadata.sorted_tables for key in other.foreign_keys)
