"""A pull request into a frozen branch, and those who act on its exceptions at the same moment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.freezes.end import lift
from services.freezes.start import NewFreeze, start
from services.pull_request_exceptions import decisions, requests
from services.pull_request_exceptions.requests import ExceptionInput
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.concurrency import Task, eventually
from tests.harness.sessions import committing, id_of

Step = Callable[[UnitOfWork], Any]
REASON = "Payments fail since 08:40"


@dataclass
class ExceptionFixture:
    """acme/web#7 into `main`, frozen; every call is made with a key of its own that has all scopes."""

    database: str
    session: Session
    uow_factory: UnitOfWorkFactory
    organization: Organization
    repository: Repository
    branch: WatchedBranch
    pull: PullRequest
    freeze: Freeze

    def caller(self) -> Caller:
        """Return an unused key."""
        return Caller(id_of(self.organization), Actor("api_key", new_id("key"), "a key"), "api", BUSINESS)

    def run(self, step: Step) -> Any:
        """Do a step in a unit of its own; returns what it returns, or the code of its refusal."""
        try:
            with self.uow_factory.open(self.caller()) as uow:
                return step(uow)
        except ServiceError as error:
            return error.code

    def during(self, first: Step, second: Step) -> tuple[Any, Any]:
        """Do `first`, and begin `second` before it is committed; returns what became of the two.

        `second` has to wait for a lock of the first one's.
        """
        with self.uow_factory.open(self.caller()) as uow:
            outcome = first(uow)
            waiting = self.begin(second)
            self.until_it_waits(waiting)
        return outcome, waiting.result()

    def begin(self, step: Step) -> Task[Any]:
        """Do a step in another thread."""
        return Task(lambda: self.run(step))

    def until_it_waits(self, step: Task[Any]) -> None:
        """Return once a session waits for a lock, which must be that of the step."""
        query = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with committing(self.database) as watching:
            eventually(lambda: watching.scalar(query), during=step)


@pytest.fixture
def exceptions(database: str, session: Session, uow_factory: UnitOfWorkFactory, acme: Organization) -> ExceptionFixture:
    repository = factories.repository(session, acme)
    branch = factories.branch(session, repository)
    pull = factories.pull_request(session, repository)
    freeze = factories.freeze(session, acme, [branch])
    session.commit()
    return ExceptionFixture(database, session, uow_factory, acme, repository, branch, pull, freeze)


def grant(uow: UnitOfWork, **wanted: Any) -> list[str]:
    """Grant acme/web#7 its exceptions; returns the freezes that they are from."""
    return [row.freeze_id for row in decisions.grant(uow, "acme/web#7", None, ExceptionInput(REASON, **wanted)).rows]


def request(uow: UnitOfWork, **wanted: Any) -> str:
    """Request exceptions for acme/web#7; returns the id of the first."""
    return requests.request(uow, "acme/web#7", None, ExceptionInput(REASON, **wanted)).rows[0].id


def decision(exception_id: str, *, granted: bool) -> Step:
    """Return the step of deciding on a request."""
    return lambda uow: [
        row.decision for row in decisions.decide(uow, exception_id, decisions.ExceptionDecision(granted=granted))
    ]


def revocation(exception_id: str) -> Step:
    """Return the step of revoking an exception."""
    return lambda uow: len(decisions.revoke(uow, exception_id, None))


def begin_freeze(uow: UnitOfWork) -> str:
    """Freeze everything once more; returns the freeze's id."""
    wanted = NewFreeze({"type": "organization"}, "Another release", impact_acknowledged=True)
    return start(uow, wanted, max_targets=10).id


def lifting_of(freeze_id: str) -> Step:
    """Return the step of lifting a freeze."""
    return lambda uow: lift(uow, freeze_id, None).id
