"""What the sweeper does to occurrences: each in a unit of its own, the one that begins first before the others."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, select

from models.organizations import Organization
from models.schedules import Occurrence
from rules.access.permissions import SYSTEM
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, Unit, Units

AT_ONCE = 200


def for_each(units: Units, which: Callable[[datetime], ColumnElement[bool]], act: Callable[[Unit, str], bool]) -> int:
    """Call `act` with the id of each occurrence for which `which` holds now; returns for how many it did something."""
    with units.open(SYSTEM_CALLER) as unit:
        query = (
            select(Occurrence.id, Occurrence.organization_id)
            .join(Organization, Organization.id == Occurrence.organization_id)
            .where(and_(which(unit.now), Organization.deleted_at.is_(None)))
            .order_by(Occurrence.starts_at, Occurrence.id)
            .limit(AT_ONCE)
        )
        found = unit.session.execute(query).all()

    def in_its_unit(row: Row[str, str]) -> bool:
        occurrence_id, organization_id = row
        with units.open(Caller(organization_id, SYSTEM, "system")) as unit:
            return act(unit, occurrence_id)

    return for_each_isolated(found, in_its_unit)
