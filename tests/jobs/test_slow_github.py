"""A slow GitHub: work is not repeated because its lease expired meanwhile."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.core.clock import whole_milliseconds
from services.core.unit_of_work import Caller
from services.enforcement.probes import probe_due
from services.enforcement_status.probe_requests import schedule_probes
from tests.harness.github_harness import ADA, Builder, Harness


@dataclass
class Waiting:
    """A clock by which each call to GitHub takes nine seconds, the purchase of a token included: it may take ten."""

    harness: Harness

    def read(self, database_now: datetime) -> datetime:
        calls = self.harness.fake_github.calls
        tokens = sum(count for name, count in calls.by_operation.items() if name.endswith("/access_tokens"))
        return whole_milliseconds(database_now + timedelta(seconds=9 * (calls.total - tokens)))


def test_many_heads_are_read_back_within_one_lease(harness: Harness, build: Builder) -> None:
    build("web", pulls=160)
    harness.run_until_idle()
    harness.fake_github.calls.reset()
    harness.full_resync()
    harness.jobs.clock = Waiting(harness)
    harness.freeze()
    assert harness.run_until_idle() <= 2
    assert set(harness.conclusions().values()) == {"failure"}


def test_rules_of_many_future_branches_are_read_within_one_lease(harness: Harness, build: Builder) -> None:
    """Each takes a call of its own, for GraphQL knows no rules of a branch that is not there."""
    build("web")
    ids = [harness.watch(f"release/{number}").id for number in range(8)]
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard")) as uow:
        schedule_probes(uow, ids)
    harness.jobs.clock = Waiting(harness)
    harness.fake_github.calls.reset()
    assert probe_due(harness.jobs, harness.github)
    assert harness.sql("SELECT count(verified_at), count(due_at) FROM branch_enforcement") == [(8, 0)]
