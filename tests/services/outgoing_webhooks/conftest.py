"""A receiver of webhooks over TLS, endpoints of acme there, and jobs that deliver to them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from integrations.guarded_https import GuardedHttps, Limits
from integrations.outgoing_webhooks import MAX_ANSWER_BYTES
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint
from services.core.unit_of_work import Dependencies, UnitOfWorkFactory
from tests import factories
from tests.factories.organizations import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.harness.concurrency import PATIENCE
from tests.harness.engines import engine_of
from tests.harness.mail import Certified, certified
from tests.harness.wakeups import RecordedWakeups
from tests.harness.webhook_receiver import WebhookReceiver, webhook_receiver

AddEndpoint = Callable[..., WebhookEndpoint]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def receiver(tls: Certified) -> Iterator[WebhookReceiver]:
    with webhook_receiver(tls) as receiver:
        yield receiver


@pytest.fixture
def client(tls: Certified) -> GuardedHttps:
    """Send to this machine, without hurry."""
    return GuardedHttps(Limits(PATIENCE, MAX_ANSWER_BYTES, 32), loopback=True, context=tls.client)


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups, client: GuardedHttps) -> UnitOfWorkFactory:
    """Units of work as jobs open them."""
    return jobs_with(database, clock, wakeups, client)


def jobs_with(database: str, clock: MovableClock, wakeups: RecordedWakeups, client: GuardedHttps) -> UnitOfWorkFactory:
    """Return what opens the units of work of one process, with this client."""
    dependencies = Dependencies(secret_key=SECRET_KEY.encode(), web_url="https://web.test", webhook_client=client)
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, dependencies)


def hurried(jobs: UnitOfWorkFactory, client: GuardedHttps) -> UnitOfWorkFactory:
    """Return the same jobs with a client that waits for a moment only."""
    impatient = replace(client, limits=replace(client.limits, timeout=0.2))
    dependencies = replace(jobs.dependencies, webhook_client=impatient)
    return UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, dependencies)


@pytest.fixture
def add(session: Session, acme: Organization, receiver: WebhookReceiver) -> AddEndpoint:
    """Add an endpoint of acme at a path of the receiver, and return it."""

    def added(path: str = "/in", *, organization: Organization = acme, **columns: object) -> WebhookEndpoint:
        endpoint = factories.webhook(session, organization, **{"url": receiver.url(path), **columns})  # type: ignore[arg-type]
        session.commit()
        return endpoint

    return added
