"""What has ended costs disk alone: reads and the sweeper's tasks do not read more however much of it there is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.database import APP_ROLE, WORKER_ROLE
from models.billing import grants_of_organizations
from models.queries import covering_freezes
from rules.rate_budget import GitHubLimits
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.freezes.views import FreezeFilters, list_freezes, show
from services.github_access.rate_limiter import reserve_query
from services.maintenance.tasks import end_freezes, repair_completions, seconds_to_next
from services.overview import summary
from services.pull_request_exceptions.expiry import end_exceptions
from services.pull_request_exceptions.views import ExceptionFilters, list_exceptions
from services.pull_requests.pull_requests import PullFilters, list_pulls
from tests import factories
from tests.harness.blocks import Blocks
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA

pytestmark = pytest.mark.check

Call = Callable[[], object]
BRANCHES = 21
"""The last of them was covered by no freeze that has ended."""
FEW, MANY = 1_000, 6_000
# Ended freezes, each of one branch, with a closed pull request and an exception that has expired; and calls of GitHub
# in this hour, of which only the last minute counts.
ENDED = (
    """INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, end_reason,
                             exceptions_allowed, impact_acknowledged, created_by, enforced_at, released_at)
       SELECT 'frz_' || n, :organization, 'It is over',
              jsonb_build_object('type', 'branch', 'branchId', (CAST(:branches AS text[]))[1 + n % 20]), 'manual',
              now() - n * interval '1 hour', now() - n * interval '1 hour', 'lifted', true, true,
              '{"type": "system", "id": null, "name": ""}',
              now(), now()
       FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n""",
    """INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, state, operation, generation)
       SELECT 'ftg_' || n, :organization, 'frz_' || n, (CAST(:branches AS text[]))[1 + n % 20], 'released', 'release', 1
       FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n""",
    """INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                                   state, merge_rank, created_at, seen_at)
       SELECT 'pul_' || n, :organization, (CAST(:repositories AS text[]))[1 + n % 20], 1000 + n, 'Closed', 'octocat',
              '', 'main', md5(n::text), 'closed', 5, now(), now()
       FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n""",
    """INSERT INTO exceptions (id, organization_id, request_group_id, freeze_id, pull_request_id, branch_id, reason,
                                pin_to_head, created_at, decision, decided_at, expired_at)
       SELECT 'exc_' || n, :organization, 'exg_' || n, 'frz_' || n, 'pul_' || n,
              (CAST(:branches AS text[]))[1 + n % 20], 'It was urgent', false, now() - n * interval '1 hour', 'granted',
              now(), now()
       FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n""",
    """INSERT INTO github_api_usage (installation_id, at, points, content)
       SELECT :installation, now() - interval '5 minutes' - n * interval '0.5 seconds', 1, 0
       FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n, generate_series(1, 5)""",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """An organisation with a few freezes in force, and with `FEW` that have ended."""

    blocks: Blocks
    calls: Mapping[str, Call]
    add: Call
    """Adds ended ones, so that they are `MANY`."""


@pytest.fixture
def scene(database: str, session: Session) -> Scene:
    acme = factories.organization(session, plan="business")
    installation_id = factories.installation(session, acme, "acme").id
    repositories = [factories.repository(session, acme, f"acme/web-{number}") for number in range(BRANCHES)]
    branches = [factories.branch(session, repository) for repository in repositories]
    pulls = [factories.pull_request(session, repository) for repository in repositories]
    freezes = [factories.freeze(session, acme, branches[start::4]) for start in range(4)]
    factories.exception(session, freezes[0], pulls[0], branches[0])
    grants = grants_of_organizations(session, [acme.id], "free")[acme.id]
    acme_id = acme.id
    names: dict[str, Any] = {
        "organization": acme_id,
        "installation": installation_id,
        "branches": [branch.id for branch in branches],
        "repositories": [repository.id for repository in repositories],
    }
    freeze, branch, repository = freezes[0].id, branches[-1].id, repositories[3].id
    session.commit()
    blocks, given = Blocks(), (MovableClock(), RecordedWakeups(), Ports(CursorSecret(b"a secret")))
    app = UnitOfWorkFactory(blocks.watch(engine_of(database, APP_ROLE)), *given)
    jobs = UnitOfWorkFactory(blocks.watch(engine_of(database, WORKER_ROLE)), *given)

    def read(work: Callable[[UnitOfWork], object]) -> Call:
        def call() -> object:
            with app.open(Caller(acme_id, ADA, "dashboard", grants)) as uow:
                return work(uow)

        return call

    def covering() -> object:
        with jobs.open(SYSTEM_CALLER) as uow:
            return covering_freezes(uow.session, names["branches"], uow.now)

    def query_of_github() -> object:
        with jobs.open(SYSTEM_CALLER) as uow:
            return reserve_query(uow, installation_id, GitHubLimits())

    def exceptions(uow: UnitOfWork) -> object:
        return list_exceptions(uow, "list_exceptions", ExceptionFilters(state="granted"), None, 50)

    add_ended(database, names, 1, FEW)
    calls = {
        "freezes": read(lambda uow: list_freezes(uow, FreezeFilters(), None, 50)),
        "freezes in force": read(lambda uow: list_freezes(uow, FreezeFilters(state="in_force"), None, 50)),
        "freezes that have ended": read(lambda uow: list_freezes(uow, FreezeFilters(state="ended"), None, 50)),
        "freezes of a branch": read(lambda uow: list_freezes(uow, FreezeFilters(branch_id=branch), None, 50)),
        "a freeze": read(lambda uow: show(uow, freeze)),
        "a freeze that has ended": read(lambda uow: show(uow, f"frz_{FEW}")),
        "pull requests": read(lambda uow: list_pulls(uow, repository, PullFilters(), None, 50)),
        "open pull requests": read(lambda uow: list_pulls(uow, repository, PullFilters(state="open"), None, 50)),
        "exceptions": read(exceptions),
        "overview": read(summary.show),
        "freezes that cover branches": covering,
        "a query of GitHub": query_of_github,
        "end of freezes": lambda: end_freezes(jobs),
        "end of exceptions": lambda: end_exceptions(jobs),
        "next instant": lambda: seconds_to_next(jobs),
        "repairs": lambda: repair_completions(jobs),
    }
    return Scene(blocks, calls, lambda: add_ended(database, names, FEW + 1, MANY))


def add_ended(database: str, names: Mapping[str, Any], first: int, last: int) -> None:
    """Add freezes that have ended, with what belongs to them."""
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in ENDED:
            connection.execute(text(statement), {**names, "first": first, "last": last})
        connection.execute(text("VACUUM ANALYZE freezes, freeze_targets, pull_requests, exceptions, github_api_usage"))
    engine.dispose()


def test_ended_rows_cost_reads_and_tasks_nothing(scene: Scene) -> None:
    before = {name: scene.blocks.of(call) for name, call in scene.calls.items()}
    scene.add()
    after = {name: scene.blocks.of(call) for name, call in scene.calls.items()}
    assert {name: (before[name], blocks) for name, blocks in after.items() if blocks > 2 * before[name] + 40} == {}
