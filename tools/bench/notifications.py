"""What notifications cost a freeze, and how soon they are sent.

(a) A freeze and a lift of all branches, GitHub at 20 ms a call, one worker: with ten webhooks, a mail server and
Slack that all hang, beside none, in alternating rounds. Aim: at most 1.1 times the seconds and the CPU of the service's
processes.

(b) 100 audit entries a second for a minute, inserted as other transactions would, over ten webhooks that each choose
one of ten actions. Aim: 5 s from the commit of an entry to the end of its first attempt (p99).
"""

import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from app.database import make_engine
from integrations.outgoing_webhooks import WebhookClient
from integrations.slack.client import SlackTokens
from models.notifications import MailChoice
from models.organizations import Organization
from rules.access.permissions import SYSTEM
from rules.ids import new_id
from services.core.clock import DatabaseClock
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.events.destinations import add_destination
from services.outgoing_webhooks.endpoints import NewWebhook, create
from services.slack.tokens import encrypt_tokens
from tests import factories
from tests.harness.certificates import CERTIFICATE, certified
from tests.harness.wakeups import RecordedWakeups
from tests.harness.webhook_receiver import WebhookReceiver, webhook_receiver
from tools.bench.servers import cpu_seconds, machine
from tools.bench.stack import LOGIN, Stack, heads_of, running, scaled, until, wait_for_rest, warm
from tools.bench.writes import Writes, freeze, lift

REPOSITORIES = scaled(400)
LATENCY_MS = 20
ROUNDS = 5
ENDPOINTS = 10
PER_SECOND = 100
SECONDS = scaled(60)
ACTIONS = (
    "freeze.started",
    "freeze.extended",
    "freeze.grew",
    "freeze.lifted",
    "freeze.expired",
    "exception.requested",
    "exception.granted",
    "exception.denied",
    "exception.used",
    "exception.expired",
)
_INSERT = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT new.id, :organization, clock_timestamp(), new.action, '{"type": "system", "id": null, "name": "x"}',
           'system', '{"type": "freeze", "id": "frz_1", "name": "Quarter-end close"}', '{}'
    FROM unnest(CAST(:ids AS text[]), CAST(:actions AS text[])) AS new (id, action)
"""
_REMOVE = """
    TRUNCATE notification_destinations, webhook_endpoints, mails, slack_messages, slack_subscriptions, slack_connections
    CASCADE
"""
_ATTEMPTS = """
    SELECT count(*) AS sent,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM m.last_attempt_at - e.at)) AS p50,
           percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM m.last_attempt_at - e.at)) AS p99
    FROM webhook_messages m JOIN audit_entries e ON e.id = m.entry_id JOIN webhook_endpoints w ON w.id = m.endpoint_id
    WHERE m.last_attempt_at IS NOT NULL AND w.deleted_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Service:
    """The service, its database, and where it sends."""

    stack: Stack
    uow_factory: UnitOfWorkFactory
    """Units of work with the secret of the service."""
    receiver: WebhookReceiver
    organization_id: str
    secret: bytes
    """The service's `SECRET_KEY`."""

    def add_webhook(self, path: str, *events: str) -> None:
        """Create a webhook of the organisation."""
        with self.uow_factory.open(Caller(self.organization_id, SYSTEM, "system")) as uow:
            create(uow, NewWebhook(path.strip("/"), self.receiver.url(path), list(events)))

    def add_hanging_destinations(self) -> None:
        """Add webhooks, a person who gets mails and a channel of Slack, whose servers all hang."""
        self.receiver.release.clear()
        for number in range(ENDPOINTS):
            path = f"/hangs/{number}"
            self.receiver.hanging.add(path)
            self.add_webhook(path, "*")
        with self.stack.stores.rows() as session:
            ours = session.get_one(Organization, self.organization_id)
            person = factories.user(session)
            factories.membership(session, ours, person, "owner")
            session.flush()
            kinds = ["freeze.started", "freeze.enforced", "freeze.ended"]
            session.add(MailChoice(organization_id=ours.id, user_id=person.id, kinds=kinds, updated_at=factories.now()))
            connection_id = new_id("slk")
            tokens = encrypt_tokens(self.secret, connection_id, SlackTokens("xoxb-of-the-bench"))
            factories.slack_connection(session, ours, id=connection_id, encrypted_tokens=tokens)
            channel_id = factories.slack_subscription(session, ours).id
        with self.uow_factory.open(Caller(self.organization_id, SYSTEM, "system")) as uow:
            add_destination(uow, self.organization_id, "mail")
            add_destination(uow, channel_id, "slack")


def main() -> None:
    """Measure and print."""
    with served() as service:
        print(f"{REPOSITORIES} heads, {LATENCY_MS} ms a call, one worker ({machine()})")
        spent: dict[str, list[tuple[float, float]]] = {"none": [], "hanging": []}
        for _ in range(ROUNDS):
            for name, rounds in spent.items():
                if name == "hanging":
                    service.add_hanging_destinations()
                rounds.append(measure(service.stack))
                service.stack.stores.sql(_REMOVE)
                service.receiver.release.set()
        compare(spent)
        service.receiver.hanging.clear()
        burst(service)


@contextmanager
def served() -> Iterator[Service]:
    """Run everything, with a server for webhooks and one for mails that never answers."""
    with ExitStack() as exit_stack:
        home = Path(exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="change-freeze-bench-")))
        receiver = exit_stack.enter_context(webhook_receiver(certified(home)))
        silent = exit_stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1000))  # it accepts nothing
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        environment = {
            "SSL_CERT_FILE": str(home / CERTIFICATE),
            "SMTP_URL": f"smtp://{address}",
            "MAIL_FROM": "Change-Freeze Service <no-reply@bench.test>",
            "SLACK_URL": f"http://{address}",
            "SLACK_CLIENT_ID": "1234567890.1234567890",
            "SLACK_CLIENT_SECRET": "a secret of the bench",
            "SLACK_SIGNING_SECRET": "another secret of the bench",
        }
        stack = exit_stack.enter_context(running(REPOSITORIES, latency_ms=LATENCY_MS, environment=environment))
        warm(stack, "acme/service-1")
        organization_id = stack.stores.sql("SELECT id FROM organizations")
        secret = stack.stores.environment["SECRET_KEY"].encode()
        ports = Ports(SecretKey(secret), WebhookClient(loopback=True))
        ours = make_engine(stack.stores.database_url, 1)
        exit_stack.callback(ours.dispose)
        uow_factory = UnitOfWorkFactory(ours, DatabaseClock(), RecordedWakeups(), ports)
        yield Service(stack, uow_factory, receiver, str(organization_id), secret)


def measure(stack: Stack) -> tuple[float, float]:
    """Freeze and lift everything; return the seconds until the last head, and the CPU seconds of the service."""
    before, heads, writes = service_cpu_seconds(stack), heads_of(stack), Writes(stack)
    freeze_id, since = freeze(stack, LOGIN, "Quarter-end close")
    took = writes.wait("failure", since, heads)
    took += writes.wait("success", lift(stack, LOGIN, freeze_id), heads)
    wait_for_rest(stack)
    return took, service_cpu_seconds(stack) - before


def service_cpu_seconds(stack: Stack) -> float:
    """Return the CPU time until now of the service's processes."""
    return sum(map(cpu_seconds, stack.processes.values()))


def compare(spent: dict[str, list[tuple[float, float]]]) -> None:
    """Print the medians and their ratios."""
    found = {}
    for name, rounds in spent.items():
        took, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
        found[name] = took, cpu
        print(f"  destinations: {name:8} {took:5.2f} s for freeze and lift, {cpu:5.2f} s of CPU")
    ratios = [hanging / none for hanging, none in zip(found["hanging"], found["none"], strict=True)]
    print(f"  hanging / none: {ratios[0]:.2f} of the time, {ratios[1]:.2f} of the CPU (aim at most 1.1)")


def burst(service: Service) -> None:
    """Insert entries at an even rate, wait until each was sent once, and print how long that took."""
    for number, action in enumerate(ACTIONS):
        service.add_webhook(f"/in/{number}", action)
    expected = 0
    owner = create_engine(service.stack.stores.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        begin = time.monotonic()
        while expected < SECONDS * PER_SECOND:
            ids = [new_id("aud") for _ in ACTIONS]
            values = {"organization": service.organization_id, "ids": ids, "actions": list(ACTIONS)}
            connection.execute(text(_INSERT), values)
            expected += len(ids)
            time.sleep(max(0.0, begin + expected / PER_SECOND - time.monotonic()))
        until(lambda: connection.execute(text(_ATTEMPTS)).one().sent >= expected)
        found = connection.execute(text(_ATTEMPTS)).one()
    print(
        f"{PER_SECOND} entries a second for {SECONDS} s, {ENDPOINTS} webhooks of one action each: {expected} messages"
    )
    print(f"  from the commit to the first attempt: p50 {found.p50:.2f} s, p99 {found.p99:.2f} s (aim 5 s)")
