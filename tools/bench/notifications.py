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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import select, text

from models.notifications import MailChoice
from models.organizations import Organization
from rules.ids import new_id
from tests import factories
from tests.harness.certificates import CERTIFICATE, certified
from tests.harness.webhook_receiver import WebhookReceiver, webhook_receiver
from tools.bench.stack import Stack, Writes, running, scaled, until, wait_for_rest

REPOSITORIES = scaled(400)
LATENCY_MS = 20
ROUNDS = 5
ENDPOINTS = 10
PER_SECOND = 100
SECONDS = scaled(60)
ACTIONS = [f"freeze.{each}" for each in ("started", "extended", "grew", "lifted", "expired")]
ACTIONS += [f"exception.{each}" for each in ("requested", "granted", "denied", "used", "expired")]
_DESTINATIONS = """
    INSERT INTO notification_destinations (id, organization_id, channel, sequence)
    SELECT id, organization_id, channel,
           (SELECT coalesce(max(sequence), 0) FROM audit_seals s WHERE s.organization_id = d.organization_id)
    FROM (SELECT id, organization_id, 'webhook' AS channel FROM webhook_endpoints
          UNION ALL SELECT id, organization_id, 'slack' FROM slack_subscriptions
          UNION ALL SELECT DISTINCT organization_id, organization_id, 'mail' FROM mail_choices) d
"""
_INSERT = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT new.id, organizations.id, clock_timestamp(), new.action, '{"type": "system", "id": null, "name": "x"}',
           'system', '{"type": "freeze", "id": "frz_1", "name": "Quarter-end close"}', '{}'
    FROM organizations, unnest(CAST(:ids AS text[]), CAST(:actions AS text[])) AS new (id, action)
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


def add_destinations(stack: Stack, receiver: WebhookReceiver, webhooks: Mapping[str, str], *, hanging: bool) -> None:
    """Add webhooks, with a path and an event each, and, if they hang, a person who gets mails and a channel."""
    with stack.stores.rows() as session:
        ours = session.scalars(select(Organization)).one()
        for path, event in webhooks.items():
            factories.webhook(session, ours, url=receiver.url(path), events=[event])
        if hanging:
            receiver.release.clear()
            receiver.hanging.update(webhooks)
            person = factories.member(session, ours, "owner")
            kinds = ["freeze.started", "freeze.enforced", "freeze.ended"]
            session.add(MailChoice(organization_id=ours.id, user_id=person.id, kinds=kinds, updated_at=factories.now()))
            factories.slack_connection(session, ours)
            factories.slack_subscription(session, ours)
            session.flush()
        session.execute(text(_DESTINATIONS))


def main() -> None:
    """Measure and print."""
    with served() as (stack, receiver):
        print(f"{REPOSITORIES} heads, {LATENCY_MS} ms a call, one worker")
        spent: dict[str, list[tuple[float, float]]] = {"none": [], "hanging": []}
        for _ in range(ROUNDS):
            for name, rounds in spent.items():
                if name == "hanging":
                    hanging = {f"/hangs/{number}": "*" for number in range(ENDPOINTS)}
                    add_destinations(stack, receiver, hanging, hanging=True)
                rounds.append(measure(stack))
                stack.stores.sql(_REMOVE)
                receiver.release.set()
        compare(spent)
        receiver.hanging.clear()
        burst(stack, receiver)


@contextmanager
def served() -> Iterator[tuple[Stack, WebhookReceiver]]:
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
        yield exit_stack.enter_context(running(REPOSITORIES, latency_ms=LATENCY_MS, environment=environment)), receiver


def measure(stack: Stack) -> tuple[float, float]:
    """Freeze and lift everything; return the seconds until the last head, and the CPU seconds of the service."""
    before = stack.cpu_seconds()
    took = sum(stack.freeze_and_lift(Writes(stack), stack.heads()))
    wait_for_rest(stack)
    return took, stack.cpu_seconds() - before


def compare(spent: dict[str, list[tuple[float, float]]]) -> None:
    """Print the medians and their ratios."""
    found = {}
    for name, rounds in spent.items():
        took, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
        found[name] = took, cpu
        print(f"  destinations: {name:8} {took:5.2f} s for freeze and lift, {cpu:5.2f} s of CPU")
    ratios = [hanging / none for hanging, none in zip(found["hanging"], found["none"], strict=True)]
    print(f"  hanging / none: {ratios[0]:.2f} of the time, {ratios[1]:.2f} of the CPU (aim at most 1.1)")


def burst(stack: Stack, receiver: WebhookReceiver) -> None:
    """Insert entries at an even rate, wait until each was sent once, and print how long that took."""
    add_destinations(stack, receiver, {f"/in/{action}": action for action in ACTIONS}, hanging=False)
    expected = 0
    with stack.stores.connection() as connection:
        begin = time.monotonic()
        while expected < SECONDS * PER_SECOND:
            ids = [new_id("aud") for _ in ACTIONS]
            connection.execute(text(_INSERT), {"ids": ids, "actions": ACTIONS})
            expected += len(ids)
            time.sleep(max(0.0, begin + expected / PER_SECOND - time.monotonic()))
        until(lambda: connection.execute(text(_ATTEMPTS)).one().sent >= expected)
        found = connection.execute(text(_ATTEMPTS)).one()
    print(f"{PER_SECOND} entries a second for {SECONDS} s, a webhook for each action: {expected} messages")
    print(f"  from the commit to the first attempt: p50 {found.p50:.2f} s, p99 {found.p99:.2f} s (aim 5 s)")
