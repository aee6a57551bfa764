"""Scopes are shown with few queries, however many freezes or schedules there are."""

from collections.abc import Callable

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from models.organizations import Organization
from services.core.unit_of_work import UnitOfWork
from services.freezes.views import FreezeFilters, list_freezes
from services.schedules.schedule_filters import ScheduleFilters
from services.schedules.views import list_schedules
from tests import factories
from tests.services.conftest import UnitOfWorkOpener

LISTS: dict[str, Callable[[UnitOfWork], object]] = {
    "freezes": lambda uow: list_freezes(uow, FreezeFilters(), None, 100),
    "schedules": lambda uow: list_schedules(uow, ScheduleFilters(), None, 100),
}


def add(session: Session, acme: Organization, number: int) -> None:
    """Add a freeze and a schedule of each way to write a scope."""
    branch = factories.watched(session, acme, f"acme/service-{number}")
    for scope in (
        {"type": "branch", "branchId": branch.id},
        {"type": "branch", "repository": f"ACME/service-{number}", "branch": "main"},
        {"type": "branch", "repository": f"acme/gone-{number}", "branch": "main"},
        {"type": "repositories", "repositories": [branch.repository_id, f"ACME/service-{number}"]},
    ):
        factories.freeze(session, acme, [branch], scope=scope)
        factories.schedule(session, acme, scope=scope)
    session.commit()


@pytest.mark.parametrize("name", LISTS)
def test_list_takes_as_many_queries_for_many_scopes(
    name: str, unit_of: UnitOfWorkOpener, acme: Organization, session: Session
) -> None:
    counts = []
    for number in range(6):
        add(session, acme, number)
        sent: list[str] = []
        with unit_of(acme) as uow:
            event.listen(uow.session.connection(), "before_cursor_execute", lambda *given: sent.append(given[2]))  # noqa: B023
            LISTS[name](uow)
        counts.append(len(sent))
    assert counts == counts[:1] * 6
