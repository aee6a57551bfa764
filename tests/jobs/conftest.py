"""A small town: an organisation with repositories at the simulated code host, and a reconciler between the two."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import CursorResult, text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from app.wiring import make_reconciler
from integrations.github import GitHub, GitHubSettings
from models.organizations import Organization
from models.repositories import WatchedBranch
from rules.access.permissions import Actor
from services.core.unit_of_work import Caller, Dependencies, UnitOfWorkFactory
from services.freezes import end
from services.freezes.start import NewFreeze, start
from services.reconcile.reconciler import Reconciler
from services.webhooks.deliveries import process
from tests import factories
from tests.harness.engines import engine_of, owner_engine_of
from tests.services.conftest import Listener, MovedClock
from tools.fake_github import FakeGitHub, Handle, serve
from tools.fake_github.control.dump import dump_checks
from tools.fake_github.model.records import PullRequest

SECRET = "a secret of the webhooks"
ADA = Actor("user", "usr_ada", "Ada")
REASON = "Release 4.2 is being rolled out"


@dataclass(slots=True)
class Town:
    """Everything that a test of the reconciler touches."""

    host: FakeGitHub
    base_url: str
    session: Session
    organization: Organization
    uow_factory: UnitOfWorkFactory
    jobs: UnitOfWorkFactory
    github: GitHub
    reconciler: Reconciler
    branches: dict[str, WatchedBranch] = field(default_factory=dict)

    def freeze(self, scope: dict[str, Any] | None = None, **wanted: Any) -> str:
        """Start a freeze, of the whole organisation unless told otherwise; the code host is not told yet."""
        with self._unit() as uow:
            wanted = {"impact_acknowledged": True, **wanted}
            asked = NewFreeze(scope or {"type": "organization"}, REASON, **wanted)
            return start(uow, asked, max_targets=10_000).id

    def lift(self, freeze_id: str) -> None:
        """Lift a freeze."""
        with self._unit() as uow:
            end.lift(uow, freeze_id, None)

    def _unit(self) -> Any:
        return self.uow_factory.open(Caller(self.organization.id, ADA, "dashboard", "business"))

    def settle(self) -> int:
        """Run passes until nothing is due; returns how many."""
        passes = 0
        while self.reconciler.run_pass():
            passes += 1
            assert passes < 100, "the reconciler does not come to rest"
        return passes

    def hear(self) -> None:
        """Read every webhook that has arrived."""
        while process(self.jobs, self.github):
            pass

    def make_due(self, *changes: str) -> None:
        """Make every branch due now, with further changes of its row."""
        due = "due_at = date_trunc('milliseconds', clock_timestamp())"  # the precision of a unit's `now`
        self.sql(f"UPDATE watched_branches SET {', '.join((due, *changes))}")

    def look_at_everything(self) -> None:
        """Do what the full pass does."""
        self.make_due("read_back = true")

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement as the owner."""
        with self.session.begin_nested():
            result = self.session.execute(text(statement), values)
            rows = list(result.all()) if isinstance(result, CursorResult) and result.returns_rows else []
        self.session.commit()
        return rows

    def merge(self, repository: str, number: int) -> requests.Response:
        """Try to merge a pull request as its maintainer would."""
        return requests.put(
            f"{self.base_url}/repos/{repository}/pulls/{number}/merge",
            headers={"Authorization": f"Bearer {self.host.person_token}"},
            json={},
            timeout=10,
        )

    def person(self, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        """Do something at the code host as a person."""
        headers = {"Authorization": f"Bearer {self.host.person_token}"}
        return requests.request(method, self.base_url + path, headers=headers, json=body, timeout=10)

    def conclusions(self) -> dict[str, str | None]:
        """Return what the code host shows on every open head: `acme/web#1` → conclusion, None for no check."""
        heads = dump_checks(self.host, {})["heads"]
        return {f"{head['repository']}#{head['number']}": _shown(head) for head in heads if head.get("number")}


def _shown(head: dict[str, Any]) -> str | None:
    runs = head["checks"]
    return next(iter(runs.values()))["conclusion"] if runs else None


@pytest.fixture(scope="session")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def fake_github(private_key: rsa.RSAPrivateKey) -> Iterator[Handle]:
    public = private_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    handle = serve(FakeGitHub(app_public_key=public.decode(), webhook_secret=SECRET))
    yield handle
    handle.stop(wait=False)  # the next test has a code host of its own, at another address


@pytest.fixture
def town(fake_github: Handle, database: str, private_key: rsa.RSAPrivateKey) -> Iterator[Town]:
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    settings = GitHubSettings(
        api_url=fake_github.base_url,
        graphql_url=fake_github.base_url + "/graphql",
        app_id=fake_github.github.app_id,
        app_slug="change-freeze",
        private_key=pem.decode(),
        webhook_secret=SECRET,
    )
    github = GitHub(settings)
    clock, listener = MovedClock(), Listener()
    dependencies = Dependencies(github, cursor_secret=b"a secret of the tests")
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, listener, dependencies)
    with Session(owner_engine_of(database), expire_on_commit=False) as session:
        acme = factories.organization(session)
        session.commit()
        yield Town(
            fake_github.github,
            fake_github.base_url,
            session,
            acme,
            UnitOfWorkFactory(engine_of(database), clock, listener, dependencies),
            jobs,
            github,
            make_reconciler(jobs, github, "http://web.test"),
        )


Builder = Callable[..., list[PullRequest]]


@pytest.fixture
def build(town: Town) -> Builder:
    """Add repositories of acme with pull requests, required checks and watched branches, on both sides."""

    def repositories(*names: str, pulls: int = 2, branch: str = "main") -> list[PullRequest]:
        made: list[PullRequest] = []
        organization = town.host.organization("acme")
        for name in names:
            repository = organization.repository(name)
            repository.requires(f"change-freeze/{branch}", branch)
            made += [repository.pull_request(base=branch) for _ in range(pulls)]
        installed = organization.installed()
        for name in names:
            record = organization.repository(name).record
            row = (
                factories.repository(
                    town.session,
                    town.organization,
                    f"acme/{name}",
                    github_id=record.id,
                    node_id=record.node_id,
                )
                if town.branches
                else _first(town, name, record.id, record.node_id, installed.id)
            )
            town.branches[f"acme/{name}"] = factories.branch(
                town.session, row, branch, due_at=factories.now(), wanted_generation=1
            )
        town.session.commit()
        return made

    return repositories


def _first(town: Town, name: str, github_id: int, node_id: str, installation_id: int) -> Any:
    permissions = dict(town.host.world.installations[installation_id].permissions)
    factories.installation(town.session, town.organization, "acme", id=installation_id, permissions=permissions)
    return factories.repository(town.session, town.organization, f"acme/{name}", github_id=github_id, node_id=node_id)


__all__ = ["Builder", "Town"]
