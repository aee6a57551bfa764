"""Purge of an organisation's data 30 days after its deletion, in batches.

Its rows are deleted from all tables with an `organization_id`, including the audit; the list of tables is derived from
the models, so that new tables are covered. One row of the organisation remains, with its id, the dates and no name.
Users keep their accounts and their other organisations. The row of its customer at Stripe loses its organisation, and a
job deletes both. Each batch is a transaction; a later sweep continues.
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
from services.core.work_queue import REQUEST
from services.offboarding.deletion import PURGE_DELAY

logger = logging.getLogger(__name__)

MAX_SECONDS = 1.0
"""Seconds that one sweep may purge, so that other tasks of the sweep are not late."""
BATCH_SIZE = 2000
"""Rows that one transaction deletes."""
REFERENCED_BATCH_SIZE = 50
"""The same for a table with foreign keys to it: PostgreSQL checks each deleted row in all referencing tables."""

# No checks may be written for an organisation that is being purged.
_REMOVE_INSTALLATIONS = (
    "UPDATE installations SET state = 'removed' WHERE organization_id = :organization AND state <> 'removed'"
)
_OF_INSTALLATIONS = "installation_id IN (SELECT id FROM installations WHERE organization_id = :organization)"
_DETACH_CUSTOMER = f"""
    UPDATE stripe_customers c SET organization_id = NULL, attempts = 0, due_at = {REQUEST.format(row="c")}
    WHERE organization_id = :organization
"""  # noqa: S608 - a constant
_DETACH_SESSIONS = """
    UPDATE sessions SET organization_id = NULL
    WHERE id IN (SELECT id FROM sessions WHERE organization_id = :organization LIMIT :limit)
"""
_EXCLUDED_TABLES = ("organizations", "sessions")


def purge_deleted(uow_factory: UnitOfWorkFactory) -> bool:
    """Purge some of the data that is due; False if none is left."""
    end = monotonic() + MAX_SECONDS
    try:
        while _purge_batch(uow_factory):
            if monotonic() > end:
                return True
    except sqlalchemy.exc.IntegrityError as error:
        logger.warning("a row was written during the purge; the next sweep deletes it: %s", error.orig)
        return True
    return False


def _purge_batch(uow_factory: UnitOfWorkFactory) -> bool:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(Organization)
            .where(Organization.deleted_at <= uow.now - PURGE_DELAY, Organization.purged_at.is_(None))
            .order_by(Organization.deleted_at, Organization.id)
            .limit(1)
            .with_for_update(key_share=True, skip_locked=True)
        )
        organization = uow.session.scalars(query).one_or_none()
        if organization is None:
            return False
        if not _delete_rows(uow, organization.id):
            organization.name, organization.slug, organization.settings = "", organization.id, {}
            organization.purged_at = uow.now
            logger.info("organisation %s was purged", organization.id)
    return True


def _delete_rows(uow: UnitOfWork, organization_id: str) -> bool:
    """Delete at most a batch; False if no row is left."""
    values = {"organization": organization_id, "now": uow.now}
    for statement in (_REMOVE_INSTALLATIONS, _DETACH_CUSTOMER):
        uow.session.execute(text(statement), values)
    remaining = BATCH_SIZE
    for statement, batch_size in _statements():
        limit = min(remaining, batch_size)
        changed = cast(CursorResult[Any], uow.session.execute(text(statement), {**values, "limit": limit})).rowcount
        remaining -= changed
        if changed == limit:
            return True  # there may be more rows, and the tables that they refer to have to wait
    return remaining < BATCH_SIZE


def _statements() -> Iterator[tuple[str, int]]:
    """Yield the statements that remove an organisation's rows, referencing tables first, and the limit of each."""
    yield _deletion("sessions", "organization_id = :organization AND kind = 'support'"), BATCH_SIZE
    yield _DETACH_SESSIONS, BATCH_SIZE
    for table in purged_tables():
        if table.name == "installations":  # rows of these tables name an installation, without a foreign key
            yield _deletion("github_api_usage", _OF_INSTALLATIONS), BATCH_SIZE
            yield _deletion("webhook_deliveries", _OF_INSTALLATIONS), BATCH_SIZE
        batch_size = REFERENCED_BATCH_SIZE if _is_referenced(table) else BATCH_SIZE
        yield _deletion(table.name, "organization_id = :organization"), batch_size


def _deletion(table: str, condition: str) -> str:
    return f"DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {table} WHERE {condition} LIMIT :limit)"  # noqa: S608 - constants and names of our tables


def purged_tables() -> Iterator[Table]:
    """Yield the tables whose rows are deleted, referencing tables first."""
    for table in reversed(Base.metadata.sorted_tables):
        if "organization_id" in table.columns and table.name not in _EXCLUDED_TABLES:
            yield table


def _is_referenced(table: Table) -> bool:
    return any(key.column.table is table for other in Base.metadata.sorted_tables for key in other.foreign_keys)
