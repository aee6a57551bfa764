"""Endpoints of webhooks that hang or refuse connections, and workers that die with a message in hand.

`acme` has webhooks while these faults are tried. Freezes and lifts wait for none of them, and in the end each endpoint
has got every event, at least once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.suite.catalogue.steps import freeze_and_lift
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault

WITHIN = 90.0
REFUSING = "https://127.0.0.1:1/in"
"""Where nothing listens."""


class Subscriber:
    """The webhooks of `acme`, all at one receiver."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.stack, self.receiver = trial, trial.stack, trial.stack.receiver
        self.paths: dict[str, str] = {}
        """By id of a webhook, the path on which it gets its messages in the end."""
        [[self.sequence]] = self.stack.sql(
            "SELECT coalesce(max(sequence), 0) FROM audit_seals WHERE organization_id = %s", self.stack.acme.id
        )

    def add(self, path: str, url: str | None = None) -> str:
        """Create a webhook of freezes, and return its id."""
        path = f"/{len(self.receiver.requests)}{path}"
        body = {"name": path, "url": url or self.receiver.url(path), "events": ["freeze.*"]}
        webhook_id: str = self.trial.client.as_owner("POST", "/v1/webhooks", body)["webhook"]["id"]
        self.paths[webhook_id] = path
        return webhook_id

    def missing(self, *webhook_ids: str) -> list[tuple[str, int]]:
        """Return which events webhooks (by default all) have not got, by path and number of the entry."""
        happened = self.stack.sql(
            "SELECT e.action, s.sequence FROM audit_entries e LEFT JOIN audit_seals s ON s.entry_id = e.id "
            "WHERE e.organization_id = %s AND e.action LIKE 'freeze.%%' AND coalesce(s.sequence, %s) > %s",
            *(self.stack.acme.id, self.sequence + 1, self.sequence),
        )
        found = []
        for webhook_id in webhook_ids or tuple(self.paths):
            path = self.paths[webhook_id]
            got = [request.headers["webhook-id"] for request in self.receiver.received(path)]
            sent = self.stack.sql(
                "SELECT sequence FROM webhook_messages WHERE id = ANY(%s) AND delivered_at IS NOT NULL", got
            )
            found += [(path, number) for _, number in happened if (number,) not in sent]
        return found


@contextmanager
def subscribed(trial: Trial) -> Iterator[Subscriber]:
    """Have webhooks during the block; at its end everything arrives, and once in the log of deliveries."""
    subscriber = Subscriber(trial)
    try:
        yield subscriber
        trial.injected()
        trial.stack.receiver.release.set()

        def is_complete() -> bool:
            trial.stack.send_now("webhook_messages")
            return not subscriber.missing()

        wait_until(is_complete, "the delivery of every event", WITHIN, 0.3, lambda: str(subscriber.missing()))
        twice = trial.stack.sql(
            "SELECT endpoint_id, sequence FROM webhook_messages GROUP BY 1, 2 HAVING count(*) > 1 AND sequence > 0"
        )
        trial.require(not twice, f"each event is one message for each webhook, but {twice}")
    finally:
        trial.stack.receiver.release.set()
        trial.stack.receiver.hanging.clear()
        for webhook_id in subscriber.paths:
            trial.client.as_owner("DELETE", f"/v1/webhooks/{webhook_id}")
        trial.stack.receiver.release.clear()


def wait_for_requests(subscriber: Subscriber, *webhook_ids: str) -> None:
    """Wait until each of these webhooks has been sent something."""
    received: Callable[[str], list[Any]] = lambda each: subscriber.receiver.received(subscriber.paths[each])  # noqa: E731
    wait_until(lambda: all(received(each) for each in webhook_ids), "an attempt of each webhook", WITHIN)


@fault("Endpoints of webhooks hang: freezes, lifts and other webhooks do not wait for them", within=WITHIN, load=False)
def hang(trial: Trial) -> None:
    # Many hold every thread that an organisation has, until their attempts time out; a quick run leaves some free.
    count, rounds = (1, 1) if trial.stack.quick else (6, 2)
    with subscribed(trial) as subscriber:
        hanging = [subscriber.add(f"/hangs/{number}") for number in range(count)]
        good = subscriber.add("/good")
        trial.stack.receiver.hanging |= {subscriber.paths[each] for each in hanging}
        for _ in range(rounds):
            freeze_and_lift(trial)
            wait_until(lambda: not subscriber.missing(good), "the events for the webhook that works", WITHIN)


@fault("Endpoints of webhooks refuse connections: freezes go on, and messages arrive later", within=WITHIN, load=False)
def refuse(trial: Trial) -> None:
    with subscribed(trial) as subscriber:
        refusing = [subscriber.add(f"/refuses/{number}", REFUSING) for number in range(3)]
        good = subscriber.add("/good")
        freeze_and_lift(trial)
        wait_until(lambda: not subscriber.missing(good), "the events for the webhook that works", WITHIN)
        trial.require(len(subscriber.missing(*refusing)) >= 2 * len(refusing), "nothing arrives where nothing listens")
        for webhook_id in refusing:
            url = trial.stack.receiver.url(subscriber.paths[webhook_id])
            trial.client.as_owner("PATCH", f"/v1/webhooks/{webhook_id}", {"url": url})


@fault("Workers are killed before the record of a webhook: it is sent again under its id", within=WITHIN, load=False)
def killed_before_the_record(trial: Trial) -> None:
    with subscribed(trial) as subscriber:
        webhook = subscriber.add("/in")
        trial.stack.receiver.hanging.add(subscriber.paths[webhook])
        freeze_and_lift(trial)
        wait_for_requests(subscriber, webhook)
        for reconciler in trial.stack.reconcilers:
            reconciler.kill()
        trial.stack.receiver.release.set()
        for reconciler in trial.stack.reconcilers:
            reconciler.start()
        wait_until(lambda: not subscriber.missing(), "the events that were in hand", WITHIN)
        received = [
            request.headers["webhook-id"] for request in subscriber.receiver.received(subscriber.paths[webhook])
        ]
        trial.require(len(set(received)) < len(received), "what was in hand is sent again under its id")
