"""Processing of occurrences by the sweep: each in its own unit of work, earliest first."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, select

from models.organizations import Organization
from models.schedules import Occurrence
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller

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

    def act_on(row: Row[str, str]) -> bool:
        occurrence_id, organization_id = row
        with uow_factory.open(system_caller(organization_id)) as uow:
            return act(uow, occurrence_id)

    return for_each_isolated(found, act_on)
