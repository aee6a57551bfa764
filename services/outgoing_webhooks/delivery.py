"""Delivery of messages to endpoints, several at once.

`deliver_due` is one run of the job: it acquires messages, sends each on a thread of its own, records what became of
them, and ends when nothing is due. Only the thread of the job uses the database, and no transaction is open during a
call. The threads that send are shared: an organisation has at most `MAX_OF_ORGANIZATION` of a process, an endpoint
`MAX_OF_ENDPOINT`. Endpoints whose last attempt failed get one message at a time, and `MAX_FAILING` threads together. So
endpoints that hang do not delay the others.

A message is sent at least once: if a process dies between the response and the record of it, the message is sent again,
with the same `webhook-id`.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Row, select

from integrations.guarded_https import GuardedHttps, NotPublicError, TooSlowError, UnreachableError
from integrations.outgoing_webhooks import TIMEOUT, WebhookClient
from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from models.queries import NOW
from rules.outgoing_webhooks.signatures import signed_headers
from services.core.encryption import DecryptionError
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import WorkQueue
from services.outgoing_webhooks.endpoints import decrypt_secrets
from services.outgoing_webhooks.outcomes import Attempt, Outcome, record

logger = logging.getLogger(__name__)

MAX_THREADS = 16
"""Messages that a process sends at once."""
MAX_FAILING = 8
"""How many of them go to endpoints whose last attempt failed."""
MAX_OF_ORGANIZATION = 4
MAX_OF_ENDPOINT = 2
POLL_INTERVAL = 0.2
"""Seconds after which a run looks for more messages while others are under way."""

_FAILURES: dict[type[Exception], tuple[str, str]] = {
    DecryptionError: ("undecryptable", "The secret cannot be read: rotate it."),
    NotPublicError: ("not_public", "The host is not one of the public internet."),
    UnreachableError: ("unreachable", "The host cannot be reached, or does not speak https."),
    TooSlowError: ("timeout", f"There was no response within {TIMEOUT:.0f} seconds."),
}

MESSAGES = WorkQueue(
    "outgoing_webhooks",
    WebhookMessage,
    select(
        WebhookMessage.id,
        WebhookMessage.organization_id,
        WebhookMessage.endpoint_id,
        WebhookMessage.body,
        WebhookMessage.attempts,
        WebhookEndpoint.url,
        WebhookEndpoint.encrypted_secret,
        WebhookEndpoint.encrypted_previous_secret,
        WebhookEndpoint.previous_secret_ends_at,
        WebhookEndpoint.failing_since.is_not(None).label("is_failing"),
    )
    .join(WebhookEndpoint, WebhookEndpoint.id == WebhookMessage.endpoint_id)
    .join(Organization, Organization.id == WebhookMessage.organization_id)
    .where(WebhookEndpoint.enabled, Organization.deleted_at.is_(None))
    .order_by(WebhookMessage.due_at, WebhookMessage.id),
    lease=timedelta(seconds=30),  # more than an attempt and the record of it can take
)
# Endpoints with messages that are due. An index has the due messages of each endpoint, so the number of all messages
# does not matter.
_WAITING = (
    select(
        WebhookEndpoint.id,
        WebhookEndpoint.organization_id,
        WebhookEndpoint.failing_since.is_not(None).label("is_failing"),
    )
    .join(Organization, Organization.id == WebhookEndpoint.organization_id)
    .where(WebhookEndpoint.enabled, Organization.deleted_at.is_(None))
    .where(
        select(WebhookMessage.id)
        .where(WebhookMessage.endpoint_id == WebhookEndpoint.id, MESSAGES.is_available(NOW))
        .correlate(WebhookEndpoint)
        .exists()
    )
)


@dataclass(slots=True)
class _Run:
    """The messages that are sent now, and the order in which endpoints had their turn."""

    of_organization: Counter[str] = field(default_factory=Counter)
    """The number of messages that are sent now, by organisation."""
    of_endpoint: Counter[str] = field(default_factory=Counter)
    failing: int = 0
    """The number of those for endpoints whose last attempt failed."""
    sending: dict[Future[Outcome], tuple[Attempt, Row[str, str, bool]]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    """The number of the last turn of each endpoint; the endpoint with the lowest is the next."""

    def acquire(self, uow: UnitOfWork) -> Iterator[tuple[Attempt, Row[str, str, bool]]]:
        """Acquire the messages that may be sent now, and yield them with their endpoints, which take turns."""
        waiting = uow.session.execute(_WAITING, {"now": uow.now}).all()
        for endpoint in sorted(waiting, key=lambda each: self.turns.get(each.id, 0)):
            free = self._free_for(endpoint)
            within = (WebhookMessage.endpoint_id, endpoint.id)
            lease = MESSAGES.acquire(uow, within=within, limit=free) if free > 0 else None
            if lease is not None:
                self.turns[endpoint.id] = max(self.turns.values(), default=0) + 1
                for message in lease.rows:
                    self._count(endpoint, 1)
                    yield Attempt(lease, message), endpoint

    def take_done(self, done: Collection[Future[Outcome]]) -> list[tuple[Attempt, Outcome]]:
        """Return the outcomes of attempts that are done, and forget them."""
        results = []
        for future in done:
            attempt, endpoint = self.sending.pop(future)
            self._count(endpoint, -1)
            results.append((attempt, future.result()))
        return results

    def _free_for(self, endpoint: Row[str, str, bool]) -> int:
        """Return how many more messages may be sent to an endpoint now."""
        free = min(
            MAX_THREADS - self.of_endpoint.total(),
            MAX_OF_ORGANIZATION - self.of_organization[endpoint.organization_id],
            (1 if endpoint.is_failing else MAX_OF_ENDPOINT) - self.of_endpoint[endpoint.id],
        )
        return min(free, MAX_FAILING - self.failing) if endpoint.is_failing else free

    def _count(self, endpoint: Row[str, str, bool], number: int) -> None:
        self.of_organization[endpoint.organization_id] += number
        self.of_endpoint[endpoint.id] += number
        self.failing += number * endpoint.is_failing


def deliver_due(uow_factory: UnitOfWorkFactory) -> bool:
    """Send messages until none is due that no process sends; return False: there is no more work."""
    run, client, secret_keys = _Run(), uow_factory.ports[WebhookClient], uow_factory.ports[SecretKey].accepted
    with ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="webhook") as threads:
        while True:
            with uow_factory.open(SYSTEM_CALLER) as uow:
                acquired = list(run.acquire(uow))
            for attempt, endpoint in acquired:
                run.sending[threads.submit(copy_context().run, _send, client, secret_keys, attempt)] = attempt, endpoint
            if not run.sending:
                return False
            done, _ = wait(run.sending, POLL_INTERVAL, FIRST_COMPLETED)
            record(uow_factory, run.take_done(done))


def _send(client: GuardedHttps, secret_keys: tuple[bytes, ...], attempt: Attempt) -> Outcome:
    """Send a message, and return what became of it; neither the address nor the answer is logged."""
    message, at = attempt.message, attempt.lease.acquired_at
    body = message.body.encode()
    try:
        secrets = decrypt_secrets(secret_keys, message.endpoint_id, message, at)
        signed = signed_headers(secrets, message.id, int(at.timestamp()), body)
        response = client.send("POST", message.url, {"Content-Type": "application/json", **signed}, body)
    except tuple(_FAILURES) as error:
        return Outcome(*_FAILURES[type(error)])
    except Exception:  # one message must not hold up all others
        logger.exception("webhook message %s could not be sent", message.id)
        return Outcome("internal", "It could not be sent.")
    answer = response.body.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    failure = None if 200 <= response.status < 300 else f"The webhook answered {response.status}."
    code = "status" if failure else None
    return Outcome(code, failure, response.status, answer, response.headers.get("retry-after"))
