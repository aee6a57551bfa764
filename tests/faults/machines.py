"""What state machines of tests have in common: a town of two repositories, to which things happen in any order.

TEST_SEED=random explores, TEST_SEED=<number> repeats, INVARIANT_EXAMPLES makes it longer, INVARIANT_SHRINK=1 looks for
the shortest failure.
"""

import os
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar, cast

import psycopg
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests import factories
from tests.harness.contributors import Contributors
from tests.harness.random_seed import chosen_seed
from tests.harness.webhook_queue import Post, work
from tests.jobs.conftest import Town
from tests.services.conftest import MovedClock
from tools.fake_github.model.records import Repository

BASES = ("main", "release/1", "release/2")
"""Watched in both repositories; the two releases share a check."""
installation_ids = count(700_001)
some = st.integers(0, 999)
"""Chooses one of as many things as there are."""


class TownMachine(RuleBasedStateMachine):
    """An organisation of repositories with open pull requests, two of which share a head; everything is at rest."""

    town: ClassVar[Town]
    database: ClassVar[psycopg.Connection[Any]]
    named: ClassVar[tuple[str, ...]]
    """What the repositories are called."""
    unwatched: ClassVar[tuple[str, ...]] = ()
    """Branches that nobody watches."""
    proposed: ClassVar[tuple[str, ...]]
    """The bases of the first pull requests of each repository; one into `release/2` shares its head with the last."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = cast(MovedClock, self.town.jobs.clock)
        self.clock.ahead = timedelta()
        empty(self.town, self.database)
        self.repositories: list[Repository] = []
        self._found()
        self.post = Post(self.town)
        self.people = Contributors(self.town)
        self.heard_all = True
        """Whether nothing was lost that only a full pass can find."""

    def _found(self) -> None:
        town = self.town
        town.organization = factories.organization(town.session)
        installed = next(installation_ids)
        factories.installation(town.session, town.organization, "acme", id=installed)
        self.repositories = [self._build(name) for name in self.named]
        town.host.organization("acme").installed(installation_id=installed)
        town.session.commit()
        work(town)

    def _build(self, name: str) -> Repository:
        town = self.town
        builder = town.host.organization("acme").repository(name, branches=(*BASES[1:], *self.unwatched))
        builder.requires("change-freeze/main", "main").requires("change-freeze/release/*", "release/*")
        record = builder.record
        known = {"github_id": record.id, "node_id": record.node_id, "auto_watch": ["release/*"]}
        row = factories.repository(town.session, town.organization, f"acme/{name}", **known)
        for base in BASES:
            factories.branch(town.session, row, base, due_at=factories.now(), wanted_generation=1)
        for base in self.proposed:
            builder.pull_request(base=base)
        builder.pull_request(base="release/2", sharesHeadWith=len(self.proposed))
        return record


def empty(town: Town, database: psycopg.Connection[Any]) -> None:
    """Forget everything, here and at the code host."""
    town.session.rollback()
    town.session.expunge_all()
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
    names = ", ".join(name for (name,) in database.execute(tables).fetchall())
    database.execute(f"TRUNCATE {names}")
    town.host.reset()


def explore(machine: type[TownMachine], town: Town, database: psycopg.Connection[Any]) -> None:
    """Run a machine on a town and its database, as often as is asked for."""
    chosen = chosen_seed()
    examples = int(os.environ.get("INVARIANT_EXAMPLES", "8"))

    class OfThisTown(machine):  # type: ignore[misc, valid-type]
        pass

    OfThisTown.town, OfThisTown.database = town, database
    seed(chosen)(OfThisTown)
    run_state_machine_as_test(
        OfThisTown,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            # Shrinking takes minutes: it is for the run that repeats a failure, not for the one that finds it.
            phases=[Phase.generate, *([Phase.shrink] if "INVARIANT_SHRINK" in os.environ else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )
