"""An organisation with repositories at the simulated GitHub, and a reconciler between the two."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import requests
from sqlalchemy import CursorResult, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from integrations.github import GitHub, GitHubSettings
from models.organizations import Organization
from models.repositories import Repository as StoredRepository
from models.repositories import WatchedBranch
from rules.access.permissions import Actor, Source
from rules.billing.grants import PlanGrants
from rules.freezes.check_names import check_name
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.probes import probe_due
from services.freezes import end, targets, views
from services.freezes.start import NewFreeze, start
from services.maintenance.resync import resync
from services.maintenance.tasks import review_enforcement
from services.reconcile.reconciler import Reconciler
from services.webhooks.deliveries import process
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.probing import schedule_all_probes
from tests.harness.remembered_states import RememberedStates
from tests.harness.sessions import id_of
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github import FakeGitHub
from tools.fake_github.control.dump import dump_checks
from tools.fake_github.model.checks import create_check_run
from tools.fake_github.model.records import CheckRun, Installation, PullRequest, Repository
from tools.fake_github.model.world import Actor as GitHubActor

T = TypeVar("T")
ADA = Actor("user", "usr_ada", "Ada")


REASON = "Release 4.2 is being rolled out"


@dataclass(slots=True)
class Harness:
    """Everything that a test of the reconciler touches."""

    fake_github: FakeGitHub
    base_url: str
    session: Session
    organization: Organization
    uow_factory: UnitOfWorkFactory
    jobs: UnitOfWorkFactory
    github: GitHub
    reconciler: Reconciler
    branches: dict[str, WatchedBranch] = field(default_factory=dict)
    remembered: RememberedStates = field(default_factory=RememberedStates)

    def freeze(self, scope: dict[str, Any] | None = None, **wanted: Any) -> str:
        """Start a freeze, of the whole organisation by default; GitHub does not show it yet."""
        with self.unit() as uow:
            wanted = {"impact_acknowledged": True, **wanted}
            asked = NewFreeze(scope or {"type": "organization"}, REASON, **wanted)
            return start(uow, asked, max_targets=10_000).id

    def lift(self, freeze_id: str) -> None:
        """Lift a freeze."""
        with self.unit() as uow:
            end.lift(uow, freeze_id, None)

    def unit(
        self, actor: Actor = ADA, source: Source = "dashboard", grants: PlanGrants = BUSINESS
    ) -> AbstractContextManager[UnitOfWork]:
        """Open a unit of work of a member of the organisation, or of a key."""
        return self.uow_factory.open(Caller(id_of(self.organization), actor, source, grants))

    @property
    def clock(self) -> MovableClock:
        """The clock of the service."""
        assert isinstance(self.jobs.clock, MovableClock)
        return self.jobs.clock

    def pass_time(self, length: timedelta = timedelta(), **more: float) -> None:
        """Let time pass for the service."""
        self.clock.offset += length + timedelta(**more)

    @property
    def woken(self) -> list[str]:
        """The jobs that were woken, in that order; to be cleared by a test."""
        assert isinstance(self.jobs.wakeups, RecordedWakeups)
        return self.jobs.wakeups.sent

    def run_until_idle(self) -> int:
        """Run passes until nothing is due; returns how many."""
        passes = 0
        while self.reconciler.run_pass():
            passes += 1
            assert passes < 100, "the reconciler does not come to rest"
        return passes

    def show(self, freeze_id: str) -> dict[str, Any]:
        """Return a freeze as the API shows it, with its targets by repository."""
        with self.unit() as uow:
            listed = targets.list_targets(uow, freeze_id, None, None, 100).data
            return {**views.show(uow, freeze_id), "by_repository": {row["repository"]: row for row in listed}}

    def read_rules(self) -> None:
        """Read the rules of every branch from GitHub."""
        with self.jobs.open(SYSTEM_CALLER) as uow:
            schedule_all_probes(uow)
        while probe_due(self.jobs, self.github):
            pass

    def review_enforcement(self) -> None:
        """Have the sweeper look at the freezes in force, whenever it did so last."""
        self.sql("DELETE FROM periodic_tasks WHERE name = 'enforcement'")
        review_enforcement(self.jobs)

    def process_webhooks(self) -> None:
        """Process every webhook that has arrived."""
        while process(self.jobs, self.github):
            pass

    def make_due(self, *changes: str) -> None:
        """Make every check due now, with further changes of its row."""
        due = "due_at = date_trunc('milliseconds', clock_timestamp())"  # the precision of a unit's `now`
        self.sql(f"UPDATE checks SET {', '.join((due, *changes))}")

    def full_resync(self) -> None:
        """Make every check due, to be read back as well: what the full resync does."""
        self.request_read_back()
        self.make_due()

    def resync(self) -> None:
        """Take the steps of the resync that are due, as the sweep does."""
        resync(self.jobs, timedelta(days=1000))

    def request_read_back(self) -> None:
        """Have the next pass over each check read it back."""
        self.sql(
            "INSERT INTO read_backs (check_id, at, organization_id) "
            "SELECT id, date_trunc('milliseconds', clock_timestamp()), organization_id FROM checks "
            "ON CONFLICT DO NOTHING"
        )

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement as the owner, and commit; roll back if it fails."""
        try:
            result = self.session.execute(text(statement), values)
            rows = list(result.all()) if isinstance(result, CursorResult) and result.returns_rows else []
        except DBAPIError:
            self.session.rollback()
            raise
        self.session.commit()
        return rows

    def merge(self, repository: str, number: int) -> requests.Response:
        """Try to merge a pull request as its maintainer would."""
        return requests.put(
            f"{self.base_url}/repos/{repository}/pulls/{number}/merge",
            headers={"Authorization": f"Bearer {self.fake_github.person_token}"},
            json={},
            timeout=10,
        )

    def person(self, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        """Do something at GitHub as a person."""
        headers = {"Authorization": f"Bearer {self.fake_github.person_token}"}
        return requests.request(method, self.base_url + path, headers=headers, json=body, timeout=10)

    def act(self, change: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Have the maintainer of every repository change something at GitHub: `change(world, maintainer, …)`."""
        with self.fake_github.world.lock:
            return change(self.fake_github.world, GitHubActor(self.fake_github.maintainer), *arguments, **named)

    def record(self, name: str = "acme/web") -> Repository:
        """Return a repository as GitHub has it."""
        return self.fake_github.world.repository_named(name)

    def watch(self, name: str, pattern: str | None = None, **columns: Any) -> WatchedBranch:
        """Have the service know another branch of acme/web, which has one `pattern` with all others if there is one."""
        if pattern is not None:
            self.sql("UPDATE watched_branches SET pattern_check_name = :pattern", pattern=pattern)
        repository = self.session.get_one(StoredRepository, self.branches["acme/web"].repository_id)
        made = factories.branch(self.session, repository, name, pattern_check_name=pattern, **columns)
        self.session.commit()
        return made

    def run_on(self, pull: PullRequest, name: str = "change-freeze/main") -> CheckRun:
        """Return the newest check run of ours on a pull request's head."""
        world = self.fake_github.world
        found = world.newest_run(pull.repository_id, pull.head_sha, name, self.fake_github.app_id)
        assert found is not None
        return found

    def report(self, sha: str, conclusion: str, name: str = "change-freeze/main", repository: str = "acme/web") -> None:
        """Have our App write a check, as a worker does that was held up, or whoever has the App's key."""
        github, fields = self.fake_github, {"name": name, "head_sha": sha, "conclusion": conclusion}
        bot = GitHubActor(github.world.accounts[github.app.bot_id], github.app_id)
        with github.world.lock:
            create_check_run(github.world, bot, github.app_id, self.record(repository), fields)

    @property
    def installed(self) -> Installation:
        """The only installation of the App, as GitHub has it."""
        [found] = self.fake_github.world.installations.values()
        return found

    def conclusions(self, name: str | None = None) -> dict[str, str | None]:
        """Return what GitHub shows on every open head: `acme/web#1` → conclusion, None for no check.

        `name` is that of the check; by default it is that of the pull request's base, or else the first there is.
        """
        heads = dump_checks(self.fake_github, {})["heads"]
        return {f"{head['repository']}#{head['number']}": _shown(head, name) for head in heads if head.get("number")}


def make_harness(
    fake_github: FakeGitHub,
    base_url: str,
    *,
    session: Session,
    organization: Organization,
    database: str,
    app_private_key: str,
    webhook_secret: str,
) -> Harness:
    """Return a harness of an organisation; `base_url` is that of the simulated GitHub."""
    settings = GitHubSettings(
        api_url=base_url,
        graphql_url=base_url + "/graphql",
        app_id=fake_github.app_id,
        app_slug="change-freeze",
        private_key=app_private_key,
        webhook_secret=webhook_secret,
    )
    github = GitHub(settings)
    clock, wakeups = MovableClock(), RecordedWakeups()
    ports = Ports(github, CursorSecret(b"a secret of the tests"), WebOrigin("http://web.test"))
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports)
    requests_of_people = UnitOfWorkFactory(engine_of(database), clock, wakeups, ports)
    reconciler = Reconciler(jobs, github, ports[WebOrigin].url)
    return Harness(fake_github, base_url, session, organization, requests_of_people, jobs, github, reconciler)


def _shown(head: dict[str, Any], name: str | None) -> str | None:
    runs = head["checks"]
    run = runs.get(name) if name else runs.get(check_name(head["base"]), next(iter(runs.values()), None))
    return run["conclusion"] if run else None


Builder = Callable[..., list[PullRequest]]
