"""A code host that takes its time: nothing is begun over and over because a lease ran out meanwhile."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from models.repositories import Repository
from services.core.clock import whole_milliseconds
from services.core.unit_of_work import Caller
from services.enforcement.probing import probe_due
from services.enforcement_status.probe_requests import schedule_probes
from tests import factories
from tests.jobs.conftest import ADA, Builder, Town


@dataclass
class Waiting:
    """A clock by which each call to the code host takes eighteen seconds."""

    town: Town

    def read(self, database_now: datetime) -> datetime:
        return whole_milliseconds(database_now + timedelta(seconds=18 * self.town.host.calls.total))


def test_many_heads_are_read_back_within_one_lease(town: Town, build: Builder) -> None:
    build("web", pulls=160)
    town.settle()
    town.host.calls.reset()
    town.look_at_everything()
    town.jobs.clock = Waiting(town)
    town.freeze()
    assert town.settle() <= 2
    assert set(town.conclusions().values()) == {"failure"}


def test_rules_of_many_future_branches_are_read_within_one_lease(town: Town, build: Builder) -> None:
    """Each takes a call of its own, for GraphQL knows no rules of a branch that is not there."""
    build("web")
    repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
    ids = [factories.branch(town.session, repository, f"release/{number}").id for number in range(8)]
    town.session.commit()
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard")) as uow:
        schedule_probes(uow, ids)
    town.jobs.clock = Waiting(town)
    town.host.calls.reset()
    assert probe_due(town.jobs, town.github)
    assert town.sql("SELECT count(verified_at), count(due_at) FROM branch_enforcement") == [(8, 0)]
