"""The product served over real HTTP, with PostgreSQL, Redis and the simulated GitHub behind it.

Fixtures:

- `acme`: an organisation whose installation is active at GitHub; `acme.repository("web")` is there and here.
  `acme.anybody`, `acme.key("repo:read")`, `acme.person("viewer")` and `acme.support` are clients that call the API.
- `repository`, `web`: acme/web, and its watched branch `main`; `api` is that of acme/api, `admin` an administrator.
- `pull`, `freeze`, `pending`: a pull request into that, a freeze of it, and a request to merge in spite of it.
- `workers`: what does the jobs of acme.
- `globex`: another organisation, of the free plan.
- `session`: rows as they are, of every organisation; what is added or changed there is committed at once.
- `clock`, `wakeups`, `fake_github`: the service's clock, what it woke, and the simulated GitHub.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from redis import Redis
from sqlalchemy.orm import Session

from app.main import create_app
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.accounts import Client, client
from tests.handlers.callers import Caller, Tenant
from tests.handlers.exceptions.requests import requested
from tests.handlers.installation_connection import BACK, ConnectionFixture
from tests.harness.app_key import AppKey
from tests.harness.audit_watch import AuditWatch
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Harness, make_harness
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.response_conformance import also_checking, checked_client
from tests.harness.served_fixtures import clock, clock_of_session, wakeups, wakeups_of_session
from tests.harness.servers import serving
from tests.harness.sessions import committing, owner_session
from tests.harness.wakeups import RecordedWakeups
from tools import fake_slack, fake_stripe
from tools.fake_github import FakeGitHub, Handle, serve
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.oauth import APP_CLIENT_SECRET
from tools.fake_slack.settings import SIGNING_SECRET, Settings

__all__ = ["clock", "clock_of_session", "wakeups", "wakeups_of_session"]
WEBHOOK_SECRET = "a secret of the webhooks"
SLACK_SECRETS = (SIGNING_SECRET, "what replaces the signing secret of tests")
STRIPE_SECRETS = ("whsec_of_the_tests_1", "whsec_of_the_tests_2")


@pytest.fixture(scope="session")
def served_fake_github(app_key: AppKey) -> Iterator[Handle]:
    handle = serve(FakeGitHub(app_id=1, app_public_key=app_key.public))
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def served_fake_stripe(clock_of_session: MovableClock) -> Iterator[fake_stripe.Handle]:
    """Serve a simulated Stripe with the clock of the product."""

    def clock() -> float:
        return time.time() + clock_of_session.offset.total_seconds()

    handle = fake_stripe.serve(fake_stripe.FakeStripe(webhook_secrets=STRIPE_SECRETS[:1], clock=clock))
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def served_fake_slack(clock_of_session: MovableClock) -> Iterator[fake_slack.Handle]:
    """Serve a simulated Slack with the clock of the product; a channel takes any number of messages a second."""

    def clock() -> float:
        return time.time() + clock_of_session.offset.total_seconds()

    handle = fake_slack.serve(fake_slack.FakeSlack(clock=clock))
    yield handle
    handle.stop()


@pytest.fixture
def slack(served_fake_slack: fake_slack.Handle, served: str) -> fake_slack.FakeSlack:
    """Return Slack as it is in the beginning, where no app is installed."""
    found = served_fake_slack.slack
    found.reset()
    found.settings = Settings(request_url=f"{served}/webhooks/slack", seconds_per_message=0.0, request_timeout=30.0)
    return found


@pytest.fixture(scope="session")
def served(
    shared_database: psycopg.Connection,
    redis_url: str,
    app_key: AppKey,
    served_fake_github: Handle,
    served_fake_stripe: fake_stripe.Handle,
    served_fake_slack: fake_slack.Handle,
    clock_of_session: MovableClock,
    wakeups_of_session: RecordedWakeups,
) -> Iterator[str]:
    """Serve the product for the whole session; each test empties the database under it."""
    config = product_config(
        address_of(shared_database),
        redis_url,
        base_url=factories.AUDIENCE,
        session_issuer=factories.ISSUER,
        github_api_url=served_fake_github.base_url,
        github_app_id=1,
        github_app_slug="change-freeze",
        github_app_private_key=app_key.private,
        github_app_client_id=client_id_of(served_fake_github.github.app.id),
        github_app_client_secret=APP_CLIENT_SECRET,
        github_client_id="Iv1.tests",
        github_client_secret="a secret of the client",
        github_web_url=served_fake_github.base_url,
        github_webhook_secret=WEBHOOK_SECRET,
        stripe_secret_key=served_fake_stripe.stripe.keys.secret_key,
        stripe_webhook_secret=STRIPE_SECRETS,
        stripe_api_url=served_fake_stripe.base_url,
        slack_client_id=served_fake_slack.slack.settings.client_id,
        slack_client_secret=served_fake_slack.slack.settings.client_secret,
        slack_signing_secret=SLACK_SECRETS,
        slack_url=served_fake_slack.base_url,
    )
    parts = product_parts(clock=clock_of_session, wakeups=wakeups_of_session)
    with serving(create_app(config, parts)) as url, also_checking(AuditWatch(shared_database)):
        yield url


@pytest.fixture(scope="session")
def http(served: str) -> Iterator[httpx.Client]:
    """Return a client that has openapi-core check every answer, besides the service itself."""
    with checked_client(served) as client:
        yield client


@pytest.fixture
def fake_github(served_fake_github: Handle) -> FakeGitHub:
    """Return GitHub without anything in it."""
    served_fake_github.github.reset()
    return served_fake_github.github


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with committing(database) as session:
        yield session


def found(session: Session, http: httpx.Client, fake_github: FakeGitHub, name: str, plan: str) -> Tenant:
    """Found an organisation here and at GitHub."""
    http.cookies.clear()  # of somebody whom an earlier test has signed in
    organization = factories.organization(session, name.title(), plan=plan)
    installation = factories.installation(session, organization, name)
    fake_github.organization(name).installed(installation_id=installation.id)
    return Tenant(session, http, fake_github, name, organization, installation)


@pytest.fixture
def acme(session: Session, http: httpx.Client, fake_github: FakeGitHub, redis: Redis) -> Tenant:
    return found(session, http, fake_github, "acme", "business")


@pytest.fixture
def globex(session: Session, http: httpx.Client, fake_github: FakeGitHub, redis: Redis) -> Tenant:
    return found(session, http, fake_github, "globex", "free")


@pytest.fixture
def repository(acme: Tenant) -> Repository:
    return acme.repository("web")


@pytest.fixture
def web(repository: Repository, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, repository)


@pytest.fixture
def api(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/api."""
    return factories.branch(session, acme.repository("api"))


@pytest.fixture
def admin(acme: Tenant) -> Caller:
    """Return an administrator of acme."""
    return acme.person("admin")


@pytest.fixture
def pull(session: Session, web: WatchedBranch, repository: Repository) -> PullRequest:
    """Return acme/web#7, into `main`."""
    return factories.pull_request(session, repository)


@pytest.fixture
def freeze(acme: Tenant, session: Session, web: WatchedBranch) -> Freeze:
    """Return a freeze that covers `main`, in force."""
    return factories.freeze(session, acme.organization, [web])


@pytest.fixture
def pending(session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> PullRequestException:
    """Return a request for an exception by another person."""
    return requested(session, freeze, pull, web)


@pytest.fixture
def workers(acme: Tenant, served_fake_github: Handle, database: str, app_key: AppKey) -> Iterator[Harness]:
    """Return what does the jobs of acme, at the GitHub of the served product."""
    with owner_session(database) as session:
        yield make_harness(
            served_fake_github.github,
            served_fake_github.base_url,
            session=session,
            organization=acme.organization,
            database=database,
            app_private_key=app_key.private,
            webhook_secret=WEBHOOK_SECRET,
        )


@pytest.fixture
def later(clock: MovableClock) -> Any:
    """Let time pass: `later(seconds=61)`."""

    def pass_time(**length: float) -> None:
        clock.offset += timedelta(**length)

    return partial(pass_time)


@pytest.fixture
def connection(acme: Tenant, session: Session, fake_github: FakeGitHub) -> Iterator[ConnectionFixture]:
    """Take away what acme has from the beginning."""
    session.delete(acme.installation)
    session.flush()
    fake_github.settings.setup_url = BACK
    found = ConnectionFixture(acme, fake_github, acme.person("admin"))
    found.uninstall(acme.installation.id)
    yield found
    fake_github.settings.setup_url = None


@pytest.fixture
def visitor(served: str, session: Session, redis: Redis) -> Iterator[Client]:
    """Return a client that is not signed in."""
    with client(served) as made:
        yield made
