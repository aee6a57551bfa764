"""What state machines of tests have in common: a harness with two repositories, to which things happen in any order."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any, ClassVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from rules.freezes.check_names import check_name
from rules.rulesets.rulesets import desired_ruleset
from services.core.unit_of_work import SYSTEM_CALLER
from tests import factories
from tests.harness import cleaning
from tests.harness.contributors import Contributors
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue, work
from tools.fake_github.model.records import PullRequest, Repository

BASES = ("main", "release/1", "release/2")
"""Watched in both repositories; the two releases match one pattern, whose check they share."""
installation_ids = count(700_001)
some = st.integers(0, 999)
"""Chooses one of as many things as there are."""


class HarnessMachine(RuleBasedStateMachine):
    """An organisation of repositories with open pull requests, two of which share a head; everything is at rest."""

    harness: ClassVar[Harness]
    database: ClassVar[psycopg.Connection[Any]]
    named: ClassVar[tuple[str, ...]]
    """What the repositories are called."""
    unprotected: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Repositories and branches of the pattern without a rule of their own."""
    unwatched: ClassVar[tuple[str, ...]] = ()
    """Unwatched branches."""
    proposed: ClassVar[tuple[str, ...]]
    """The bases of the first pull requests of each repository; one into `release/2` shares its head with the last."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.harness.clock
        self.clock.offset = timedelta()
        empty(self.harness, self.database)
        self.repositories: list[Repository] = []
        self._found()
        self.webhook_queue = WebhookQueue(self.harness)
        self.people = Contributors(self.harness)
        self.all_delivered = True
        """Whether nothing was lost that only a full resync can find."""

    @property
    def now(self) -> datetime:
        """The time of the service."""
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            return uow.now

    @property
    def existing(self) -> list[Repository]:
        """The repositories that people have not deleted."""
        return self.repositories

    def any_pull_request(self, which: int, state: str = "open") -> tuple[Repository, PullRequest] | None:
        """Choose a pull request that was not merged."""
        every = [(each, pull) for each in self.existing for pull in each.pulls.values()]
        found = [(each, pull) for each, pull in every if pull.state == state and not pull.merged_at]
        return found[which % len(found)] if found else None

    def running(self) -> list[str]:
        """Return the ids of the freezes that are in force."""
        now = self.now
        rows = self.harness.sql("SELECT id, ends_at FROM freezes WHERE ended_at IS NULL ORDER BY id")
        return [row[0] for row in rows if row[1] is None or row[1] > now]

    def plan(self, scope: dict[str, Any], *, minutes: int, hours: int, most: int) -> None:
        """Plan a window that begins in some minutes, unless as many as there may be are to come."""
        harness, starts_at = self.harness, self.now + timedelta(minutes=minutes)
        if harness.sql("SELECT count(*) FROM occurrences WHERE started_at IS NULL AND missed_at IS NULL")[0][0] < most:
            schedule = factories.schedule(harness.session, harness.organization, scope=scope)
            ends_at = starts_at + timedelta(hours=hours)
            factories.occurrence(harness.session, schedule, starts_at=starts_at, ends_at=ends_at)
            harness.session.commit()

    def _found(self) -> None:
        harness = self.harness
        harness.organization = factories.organization(harness.session)
        installed = next(installation_ids)
        factories.installation(harness.session, harness.organization, "acme", id=installed)
        self.repositories = [self._build(name) for name in self.named]
        harness.fake_github.organization("acme").installed(installation_id=installed)
        harness.session.commit()
        work(harness)

    def _build(self, name: str) -> Repository:
        harness = self.harness
        builder = harness.fake_github.organization("acme").repository(name, branches=(*BASES[1:], *self.unwatched))
        builder.requires("change-freeze/main", "main").requires("change-freeze/release/*", "release/*")
        protected = [base for base in BASES[1:] if (name, base) not in self.unprotected]
        for base in protected:
            builder.ruleset(**desired_ruleset(check_name(base), harness.fake_github.app_id))
        record = builder.record
        known = {"github_id": record.id, "node_id": record.node_id, "auto_watch": ["release/*"]}
        row = factories.repository(harness.session, harness.organization, f"acme/{name}", **known)
        for base in BASES:
            branch = factories.branch(harness.session, row, base, due_at=factories.now(), wanted_generation=1)
            factories.branch_enforcement(harness.session, branch, own_rule=base in protected)
        for base in self.proposed:
            builder.pull_request(base=base)
        builder.pull_request(base="release/2", sharesHeadWith=len(self.proposed))
        return record


def empty(harness: Harness, database: psycopg.Connection[Any]) -> None:
    """Forget everything, here and at GitHub."""
    harness.session.rollback()
    harness.session.expunge_all()
    cleaning.reset(database)
    harness.fake_github.reset()
