"""A receiver of webhooks over TLS, endpoints of acme there, and jobs that deliver to them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from integrations.guarded_https import Limits
from integrations.outgoing_webhooks import MAX_ANSWER_BYTES, WebhookClient
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWorkFactory
from services.outgoing_webhooks.delivery import deliver_due
from tests import factories
from tests.factories.organizations import SECRET_KEY
from tests.harness.certificates import Certified
from tests.harness.clock import MovableClock
from tests.harness.concurrency import PATIENCE
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.harness.webhook_receiver import WebhookReceiver, webhook_receiver


@pytest.fixture
def receiver(tls: Certified) -> Iterator[WebhookReceiver]:
    with webhook_receiver(tls) as receiver:
        yield receiver


@pytest.fixture
def client(tls: Certified) -> WebhookClient:
    """Send to this machine, without hurry."""
    return WebhookClient(Limits(PATIENCE, MAX_ANSWER_BYTES, 32), loopback=True, context=tls.client)


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups, client: WebhookClient) -> UnitOfWorkFactory:
    """Units of work as jobs open them."""
    return jobs_with(database, clock, wakeups, client)


def jobs_with(database: str, clock: MovableClock, wakeups: RecordedWakeups, client: WebhookClient) -> UnitOfWorkFactory:
    """Return what opens the units of work of one process, with this client."""
    ports = Ports(SecretKey(SECRET_KEY.encode()), WebOrigin("https://web.test"), client)
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports)


def hurried(jobs: UnitOfWorkFactory, client: WebhookClient) -> UnitOfWorkFactory:
    """Return the same jobs with a client that waits for a moment only."""
    impatient = replace(client, limits=replace(client.limits, timeout=0.2))
    ports = jobs.ports.having(impatient)
    return UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, ports)


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class WebhookHarness:
    """Endpoints of acme at the receiver, their messages, and the jobs that deliver them."""

    session: Session
    acme: Organization
    receiver: WebhookReceiver
    client: WebhookClient
    clock: MovableClock
    jobs: UnitOfWorkFactory

    def endpoint(
        self, path: str = "/in", *, organization: Organization | None = None, **columns: Any
    ) -> WebhookEndpoint:
        """Add an endpoint at a path of the receiver, of acme if no organisation is given."""
        values = {"url": self.receiver.url(path), **columns}
        endpoint = factories.webhook(self.session, organization or self.acme, **values)
        self.session.commit()
        return endpoint

    def write(self, endpoint: WebhookEndpoint, number: int = 1) -> list[WebhookMessage]:
        """Add messages that are due, committed."""
        messages = [factories.webhook_message(self.session, endpoint) for _ in range(number)]
        self.session.commit()
        return messages

    def deliver(self) -> bool:
        """Deliver what is due."""
        return deliver_due(self.jobs)

    def attempted(self, endpoint: WebhookEndpoint | None = None) -> WebhookMessage:
        """Write a message for an endpoint, by default a new one, deliver what is due, and return it as it is then."""
        [message] = self.write(endpoint or self.endpoint())
        self.deliver()
        return self.saved(message)

    def saved(self, row: Row) -> Row:
        """Return a row as it is committed."""
        self.session.rollback()
        self.session.refresh(row)
        return row

    def states(self) -> list[str]:
        """Return the states of all messages as they are committed, oldest first."""
        self.session.rollback()
        self.session.expire_all()
        messages = self.session.scalars(select(WebhookMessage).order_by(WebhookMessage.id))
        return [message.state for message in messages]


@pytest.fixture
def webhooks(
    session: Session,
    acme: Organization,
    receiver: WebhookReceiver,
    client: WebhookClient,
    clock: MovableClock,
    jobs: UnitOfWorkFactory,
) -> WebhookHarness:
    return WebhookHarness(session, acme, receiver, client, clock, jobs)
