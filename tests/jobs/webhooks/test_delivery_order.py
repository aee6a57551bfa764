"""I11: webhooks are hints. Doubled, shuffled, late or lost, they end in the same state."""

import random
from collections.abc import Callable

import pytest

from tests.harness.github_harness import Harness
from tests.harness.people import cut, edit, propose, push_to_head
from tests.harness.random_seed import chosen_seed
from tests.harness.webhook_queue import WebhookQueue, disagreements, full_resync, work
from tools.fake_github.webhooks.sender import Delivery

Arrival = Callable[[WebhookQueue, random.Random], None]
STORY: list[Callable[[Harness], object]] = [
    lambda harness: harness.freeze({"type": "glob", "patterns": ["acme/api"]}),
    lambda harness: push_to_head(harness, "acme/web", 1),
    lambda harness: edit(harness, 2, state="closed"),
    lambda harness: cut(harness, "acme/web", "release/9"),
    lambda harness: propose(harness, "acme/web", "release/9"),
    lambda harness: cut(harness, "acme/api", "develop"),
    lambda harness: edit(harness, 1, "acme/api", base="develop"),
    lambda harness: harness.person("PATCH", "/repos/acme/api", {"name": "backend"}),
    lambda harness: propose(harness, "acme/backend"),
    lambda harness: edit(harness, 2, state="open"),
    lambda harness: push_to_head(harness, "acme/web", 2),
    lambda harness: propose(harness, "acme/web"),
]
END = {
    "acme/backend#1": "failure",  # given up for an unwatched branch
    "acme/backend#2": "failure",
    "acme/backend#3": "failure",
    "acme/web#1": "success",
    "acme/web#2": "success",
    "acme/web#3": "success",
    "acme/web#4": "success",
}


def deliver_as(webhook_queue: WebhookQueue, arrive: Callable[[list[Delivery]], list[Delivery]]) -> None:
    """Live through the story; after each step arrives what `arrive` makes of what was written so far."""
    for step in STORY:
        step(webhook_queue.harness)
        webhook_queue.deliver(arrive(webhook_queue.take()))
        work(webhook_queue.harness)


def in_order(webhook_queue: WebhookQueue, _chance: random.Random) -> None:
    deliver_as(webhook_queue, lambda new: new)


def doubled(webhook_queue: WebhookQueue, _chance: random.Random) -> None:
    deliver_as(webhook_queue, lambda new: [delivery for delivery in new for _ in range(2)])


def repeated_later(webhook_queue: WebhookQueue, _chance: random.Random) -> None:
    seen: list[Delivery] = []
    deliver_as(webhook_queue, lambda new: [*seen, *new] if not seen.extend(new) else [])  # type: ignore[func-returns-value]


def shuffled(webhook_queue: WebhookQueue, chance: random.Random) -> None:
    held: list[Delivery] = []

    def some(new: list[Delivery]) -> list[Delivery]:
        held.extend(new)
        chance.shuffle(held)
        arriving, held[:] = held[: len(held) // 2], held[len(held) // 2 :]
        return arriving

    deliver_as(webhook_queue, some)
    webhook_queue.deliver(held)


def late(webhook_queue: WebhookQueue, chance: random.Random) -> None:
    held: list[Delivery] = []
    deliver_as(webhook_queue, lambda new: held.extend(new) or [])  # type: ignore[func-returns-value]
    chance.shuffle(held)
    webhook_queue.deliver(held)


def thinned(webhook_queue: WebhookQueue, chance: random.Random) -> None:
    deliver_as(webhook_queue, lambda new: [delivery for delivery in new if chance.random() > 0.3])
    full_resync(webhook_queue.harness)


def lost(webhook_queue: WebhookQueue, _chance: random.Random) -> None:
    deliver_as(webhook_queue, lambda _new: [])
    full_resync(webhook_queue.harness)


class TestFinalState:
    @pytest.mark.parametrize("arrival", [in_order, doubled, repeated_later, shuffled, late, thinned, lost])
    def test_final_state_does_not_depend_on_webhook_order(
        self, harness: Harness, webhook_queue: WebhookQueue, arrival: Arrival
    ) -> None:
        seed = chosen_seed()
        arrival(webhook_queue, random.Random(seed))
        webhook_queue.run()
        work(harness)
        assert disagreements(harness) == {}
        assert harness.conclusions() == END
        assert harness.sql("SELECT owner || '/' || name FROM repositories ORDER BY 1") == [
            ("acme/backend",),
            ("acme/web",),
        ]
        watched = (
            "SELECT r.name, b.name FROM watched_branches b JOIN repositories r ON r.id = repository_id ORDER BY 1, 2"
        )
        assert harness.sql(watched) == [("backend", "main"), ("web", "main"), ("web", "release/9")]
