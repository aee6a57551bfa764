"""What the list of forbidden pull requests costs follows from what is frozen, not from how much is listed."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.time.schedule_overlaps import BranchIndex
from services.pull_requests.forbidden import ForbiddenFilters, list_forbidden
from tests import factories
from tests.harness.engines import listening
from tests.services.conftest import UnitOfWorkOpener

NO_FILTERS = ForbiddenFilters()


@pytest.fixture
def branch(session: Session, acme: Organization) -> WatchedBranch:
    """A watched branch, with ten windows of each of three schedules to come."""
    branch = factories.watched(session, acme)
    for _ in range(3):
        schedule = factories.schedule(session, acme)
        for day in range(10):
            factories.occurrence(session, schedule, starts_at=factories.now() + timedelta(days=day, hours=2))
    return branch


class Cost:
    """What a page of the list costs: the statements that are sent, and how often a scope is compared with branches."""

    def __init__(self, open_unit: UnitOfWorkOpener, engine: Engine, acme: Organization, listed: int) -> None:
        self.statements = 0
        self.scopes = 0
        reached = BranchIndex.reached

        def counted(*arguments: object) -> object:
            self.scopes += 1
            return reached(*arguments)  # type: ignore[arg-type]

        def sent(*_: object) -> None:
            self.statements += 1

        with (
            pytest.MonkeyPatch.context() as patch,
            open_unit(acme) as uow,
            listening(engine, "before_cursor_execute", sent),
        ):
            patch.setattr(BranchIndex, "reached", counted)
            page = list_forbidden(uow, NO_FILTERS, None, 50)
        assert len(page.data) == listed


@pytest.fixture
def freeze(session: Session, acme: Organization, branch: WatchedBranch) -> Freeze:
    return factories.freeze(session, acme, [branch], ends_at=factories.now() + timedelta(hours=1))


@pytest.mark.usefixtures("freeze")
def test_cost_is_the_same_for_many_pull_requests_of_a_branch(
    unit_of: UnitOfWorkOpener, engine: Engine, session: Session, acme: Organization, branch: WatchedBranch
) -> None:
    repository = session.get_one(Repository, branch.repository_id)
    factories.pull_request(session, repository, 1)
    session.commit()
    of_one = Cost(unit_of, engine, acme, listed=1)
    for number in range(2, 41):
        factories.pull_request(session, repository, number)
    session.commit()
    of_forty = Cost(unit_of, engine, acme, listed=40)
    assert (of_forty.statements, of_forty.scopes) == (of_one.statements, of_one.scopes)
    assert 3 <= of_one.scopes <= 6  # once a schedule for its next window, and once for all of them


def test_pull_request_that_is_let_in_takes_no_planned_windows(
    unit_of: UnitOfWorkOpener,
    engine: Engine,
    session: Session,
    acme: Organization,
    branch: WatchedBranch,
    freeze: Freeze,
) -> None:
    pull = factories.pull_request(session, session.get_one(Repository, branch.repository_id))
    session.commit()
    assert Cost(unit_of, engine, acme, listed=1).scopes > 0
    factories.exception(session, freeze, pull, branch)
    session.commit()
    assert Cost(unit_of, engine, acme, listed=0).scopes == 0
