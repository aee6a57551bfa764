"""Webhooks of the simulated GitHub that arrive when and as often as a test wants, and what is right at rest."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from models.queries import covering_freezes
from rules.access.permissions import CODE_HOST
from rules.freezes.check_names import check_name
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.maintenance import resync
from services.repository_sync.sync import sync_due
from services.webhooks.deliveries import receive
from tests.harness.github_harness import Harness
from tools.fake_github.model.protection import push_violations
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.world import Actor
from tools.fake_github.webhooks.sender import Delivery

Difference = tuple[str, str, str | None, str | None]
"""Pull request and check, commit, what is shown, what should be."""
GITHUB_CALLER = Caller(None, CODE_HOST, "code_host")


class WebhookQueue:
    """Holds back every delivery of the simulated GitHub until it is delivered."""

    def __init__(self, harness: Harness, taken: set[int] | None = None) -> None:
        self.harness = harness
        self.taken: set[int] = taken or set()
        """The ids of deliveries that were delivered, or lost."""
        harness.fake_github.settings.webhook_url = "http://nowhere.test"
        harness.fake_github.faults.add("webhook_drop")

    def take(self) -> list[Delivery]:
        """Return what GitHub has written since the last call."""
        new = [
            found for found in list(self.harness.fake_github.sender.deliveries.values()) if found.id not in self.taken
        ]
        self.taken |= {delivery.id for delivery in new}
        return new

    def receive(self, deliveries: Iterable[Delivery]) -> None:
        """Deliver them, signed as they were."""
        for delivery in deliveries:
            headers = self.harness.fake_github.sender.headers(delivery)
            with self.harness.uow_factory.open(GITHUB_CALLER) as uow:
                receive(uow, delivery.body, headers["X-Hub-Signature-256"], delivery.event, delivery.guid)

    def deliver(self, deliveries: Iterable[Delivery]) -> None:
        """Deliver them, and process them."""
        self.receive(deliveries)
        self.harness.process_webhooks()

    def run(self) -> None:
        """Deliver everything, and work until nothing is left to do."""
        while deliveries := self.take():
            self.deliver(deliveries)
            work(self.harness)


def work(harness: Harness) -> None:
    """Do all jobs until nothing is due."""
    while sync_due(harness.jobs, harness.github):
        pass
    harness.process_webhooks()
    harness.run_until_idle()


def full_resync(harness: Harness) -> None:
    """Do the full resync and what becomes due by it."""
    resync.full_resync(harness.jobs, timedelta(0))
    work(harness)


def disagreements(harness: Harness, unreported: Collection[str] = ()) -> dict[str, tuple[str | None, str | None]]:
    """Compare every head at GitHub with the database: `acme/web#1` → (shown, expected), where they differ.

    An open head of a watched branch carries the verdict of the freezes that cover its base now, and of its exceptions
    from them; likewise for the check of the pattern. A head that was given up carries no `success`, unless it is a
    commit that `unreported` names: those are not read any more.
    """
    verdicts = Verdicts.read(harness)
    wrong: list[Difference] = []
    for repository in harness.fake_github.world.repositories.values():
        for name in verdicts.check_names(repository):
            heads = verdicts.expected(repository, name)
            wrong += _compare(harness, repository, name, heads)
    return {head: (shown, expected) for head, sha, shown, expected in wrong if expected or sha not in unreported}


def landable(harness: Harness, unreported: Collection[str] = ()) -> set[tuple[str, str, str]]:
    """Return what can land although it is frozen: repository, branch, and commit that a push would be accepted of.

    A commit may land on a frozen branch if every open pull request of it into that branch has exceptions.
    """
    verdicts, world = Verdicts.read(harness), harness.fake_github.world
    person = Actor(harness.fake_github.maintainer)
    found = set()
    for repository in world.repositories.values():
        for branch in verdicts.frozen(repository):
            excepted = {
                sha for sha, blocked in verdicts.expected(repository, check_name(branch)).items() if not blocked
            }
            found |= {
                (world.full_name(repository), branch, sha)
                for sha in repository.commits.keys() - excepted - set(unreported)
                if not push_violations(world, person, repository, branch, sha)
            }
    return found


@dataclass(frozen=True, slots=True)
class Known:
    """A branch that the service knows."""

    check_name: str
    pattern_check_name: str | None
    own_rule: bool

    @property
    def check_names(self) -> set[str | None]:
        """The names of the checks of its heads."""
        return {self.check_name, self.pattern_check_name}


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the checks have to say now, by the freezes and exceptions in the database."""

    branches: Mapping[tuple[int, str], Known]
    """By GitHub's id of the repository, and name."""
    freezes: Mapping[tuple[int, str], set[str]]
    """Likewise: the freezes in force that cover it."""
    granted: Sequence[Any]

    @classmethod
    def read(cls, harness: Harness) -> "Verdicts":
        """Read what is known now."""
        rows = harness.sql(
            "SELECT r.github_id, b.name, b.id, b.check_name, b.pattern_check_name, coalesce(e.own_rule, false) AS own "
            "FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
            "LEFT JOIN branch_enforcement e ON e.branch_id = b.id WHERE r.removed_at IS NULL"
        )
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            covering = covering_freezes(uow.session, [row.id for row in rows], uow.now)
            granted = harness.sql(_GRANTED, now=uow.now)
        return cls(
            {(row.github_id, row.name): Known(row.check_name, row.pattern_check_name, row.own) for row in rows},
            {(row.github_id, row.name): {each.id for each in covering.get(row.id, ())} for row in rows},
            granted,
        )

    def blocks(self, repository: Repository, pull: PullRequest) -> set[str]:
        """Return which freezes block a pull request now, so far as it goes into a branch that we know."""
        mine = (repository.id, pull.number, pull.base_ref)
        passed = {row.freeze_id for row in self.granted if tuple(row[:3]) == mine and row.pin in {None, pull.head_sha}}
        return self.freezes.get((repository.id, pull.base_ref), set()) - passed

    def frozen(self, repository: Repository) -> list[str]:
        """Return the branches of a repository that freezes cover."""
        return [name for (of, name), found in self.freezes.items() if of == repository.id and found]

    def check_names(self, repository: Repository) -> set[str]:
        """Return the names of all checks that the service writes in a repository."""
        known = [each for (of, _name), each in self.branches.items() if of == repository.id]
        return {each.check_name for each in known} | {each.pattern_check_name or each.check_name for each in known}

    def expected(
        self, repository: Repository, name: str, pulls: Sequence[PullRequest] | None = None
    ) -> dict[str, bool]:
        """Return which heads have an open pull request under a check name, and whether the check blocks each.

        `pulls` are those that the service knows of, by default all.
        """
        bases = {
            base for (of, base), known in self.branches.items() if of == repository.id and name in known.check_names
        }
        every = repository.pulls.values() if pulls is None else pulls
        followed = [pull for pull in every if pull.state == "open" and pull.base_ref in bases]
        return {pull.head_sha: self._blocked(repository, name, pull.head_sha, followed) for pull in followed}

    def _blocked(self, repository: Repository, name: str, sha: str, followed: Sequence[PullRequest]) -> bool:
        blocked = {pull.base_ref for pull in followed if pull.head_sha == sha and self.blocks(repository, pull)}
        enters = {pull.base_ref for pull in followed if pull.head_sha == sha} - blocked
        allowed = [pull for pull in followed if pull.head_sha == sha and not self.blocks(repository, pull)]
        if "*" not in name:
            return bool(blocked)
        unprotected = {
            base
            for (of, base), known in self.branches.items()
            if of == repository.id and known.pattern_check_name == name and not known.own_rule
        }
        return not allowed or bool(unprotected & set(self.frozen(repository)) - enters)


_GRANTED = """
    SELECT r.github_id, p.number, b.name, e.freeze_id, CASE WHEN e.pin_to_head THEN e.head_sha END AS pin
    FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id
    JOIN watched_branches b ON b.id = e.branch_id JOIN repositories r ON r.id = p.repository_id
    WHERE e.decision = 'granted' AND e.revoked_at IS NULL AND e.expired_at IS NULL
      AND coalesce(e.expires_at > :now, true)
"""


def _compare(harness: Harness, repository: Repository, name: str, heads: dict[str, bool]) -> Iterator[Difference]:
    """Compare the heads of one check; `heads` are the open ones, and whether each is blocked."""
    for pull in repository.pulls.values():
        shown = _conclusion(harness, repository, pull.head_sha, name)
        expected = None if pull.head_sha not in heads else "failure" if heads[pull.head_sha] else "success"
        if shown == "success" if expected is None else shown != expected:
            yield (
                f"{harness.fake_github.world.full_name(repository)}#{pull.number} {name}",
                pull.head_sha,
                shown,
                expected,
            )


def _conclusion(harness: Harness, repository: Repository, sha: str, name: str) -> str | None:
    run = harness.fake_github.world.newest_run(repository.id, sha, name, harness.fake_github.app_id)
    return run.conclusion if run is not None else None
