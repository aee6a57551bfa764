"""A code host that takes its time: nothing is begun over and over because a lease ran out meanwhile."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.clock import whole_milliseconds
from tests.jobs.conftest import Builder, Town


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
