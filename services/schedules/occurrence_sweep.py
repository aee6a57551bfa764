"""Processing of occurrences by the sweep: each in its own unit of work, earliest first."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, and_, select

from models.organizations import Organization
from models.schedules import Occurrence
from services.core.batch import for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory

MAX_PROCESSED = 200


def for_each(
    uow_factory: UnitOfWorkFactory,
    which: Callable[[datetime], ColumnElement[bool]],
    act: Callable[[UnitOfWork, str], bool],
) -> int:
    """Call `act` with the id of each occurrence that meets the condition now; return how often it returned true."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(Occurrence.id, Occurrence.organization_id)
            .join(Organization, Organization.id == Occurrence.organization_id)
            .where(and_(which(uow.now), Organization.deleted_at.is_(None)))
            .order_by(Occurrence.starts_at, Occurrence.id)
            .limit(MAX_PROCESSED)
        )
        found = uow.session.execute(query).all()
    return for_each_in_organization(uow_factory, found, act)
