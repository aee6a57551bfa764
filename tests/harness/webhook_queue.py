"""Webhooks of the simulated code host that arrive when and as often as a test wants, and what is right at rest."""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta

from models.queries import covering_freezes
from rules.access.permissions import CODE_HOST
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.maintenance import tasks
from services.repository_sync.sync import sync_due
from services.webhooks.deliveries import receive
from tests.harness.github_harness import Harness
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.webhooks.sender import Delivery

Difference = tuple[str, str, str | None, str | None]
"""Pull request and check, commit, what is shown, what should be."""
NOBODY = Caller(None, CODE_HOST, "code_host")


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

    def deliver(self, deliveries: Iterable[Delivery]) -> None:
        """Deliver them, signed as they were, and process them."""
        for delivery in deliveries:
            headers = self.harness.fake_github.sender.headers(delivery)
            with self.harness.uow_factory.open(NOBODY) as uow:
                receive(uow, delivery.body, headers["X-Hub-Signature-256"], delivery.event, delivery.guid)
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
    tasks.full_resync(harness.jobs, timedelta(0))
    work(harness)


def disagreements(harness: Harness, unheard_of: Collection[str] = ()) -> dict[str, tuple[str | None, str | None]]:
    """Compare every head at the code host with the database: `acme/web#1` → (shown, expected), where they differ.

    An open head of a watched branch carries the verdict of the freezes that cover its base now, and of its exceptions
    from them; a head that was given up carries no `success`, unless it is a commit that `unheard_of` names: nobody
    looks at those again.
    """
    rows = harness.sql(
        "SELECT r.github_id, b.name, b.check_name, b.id FROM watched_branches b "
        "JOIN repositories r ON r.id = b.repository_id WHERE r.removed_at IS NULL"
    )
    freezes = blocking(harness)
    wrong: list[Difference] = []
    for repository in harness.fake_github.world.repositories.values():
        bases = {row[1]: row[2] for row in rows if row[0] == repository.id}
        for name in set(bases.values()):
            alike = {base for base, check in bases.items() if check == name}
            followed = [pull for pull in repository.pulls.values() if pull.state == "open" and pull.base_ref in alike]
            blocked = {pull.head_sha for pull in followed if freezes(repository, pull)}
            wrong += _compare(harness, repository, name, {pull.head_sha: pull.head_sha in blocked for pull in followed})
    return {head: (shown, expected) for head, sha, shown, expected in wrong if expected or sha not in unheard_of}


def blocking(harness: Harness) -> Callable[[Repository, PullRequest], set[str]]:
    """Return what tells which freezes block a pull request now, so far as it goes into a branch that we know."""
    known = "SELECT r.github_id, b.name, b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id"
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        branches = {branch_id: (github_id, name) for github_id, name, branch_id in harness.sql(known)}
        covering = covering_freezes(uow.session, list(branches), uow.now)
        granted = harness.sql(_GRANTED, now=uow.now)
    freezes = {branches[branch_id]: {each.id for each in found} for branch_id, found in covering.items()}

    def blocks(repository: Repository, pull: PullRequest) -> set[str]:
        mine = (repository.id, pull.number, pull.base_ref)
        passed = {row.freeze_id for row in granted if tuple(row[:3]) == mine and row.pin in {None, pull.head_sha}}
        return freezes.get((repository.id, pull.base_ref), set()) - passed

    return blocks


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
