"""I11: webhooks are hints. Doubled, shuffled, late or lost, they end in the same state."""

import random
from collections.abc import Callable

import pytest

from tests.harness.random_seed import chosen_seed
from tests.harness.webhook_queue import Post, disagreements, look_everywhere, work
from tests.jobs.conftest import Town
from tests.jobs.webhooks.github_actions import change, cut, head_of, propose, push
from tools.fake_github.webhooks.sender import Delivery

Arrival = Callable[[Post, random.Random], None]
STORY: list[Callable[[Town], object]] = [
    lambda town: town.freeze({"type": "glob", "patterns": ["acme/api"]}),
    lambda town: push(town, "acme/web", head_of(town, "acme/web", 1)),
    lambda town: change(town, "acme/web", 2, state="closed"),
    lambda town: cut(town, "acme/web", "release/9"),
    lambda town: propose(town, "acme/web", "release/9"),
    lambda town: cut(town, "acme/api", "develop"),
    lambda town: change(town, "acme/api", 1, base="develop"),
    lambda town: town.person("PATCH", "/repos/acme/api", {"name": "backend"}),
    lambda town: propose(town, "acme/backend"),
    lambda town: change(town, "acme/web", 2, state="open"),
    lambda town: push(town, "acme/web", head_of(town, "acme/web", 2)),
    lambda town: propose(town, "acme/web"),
]
END = {
    "acme/backend#1": "failure",  # given up for a branch that nobody watches
    "acme/backend#2": "failure",
    "acme/backend#3": "failure",
    "acme/web#1": "success",
    "acme/web#2": "success",
    "acme/web#3": "success",
    "acme/web#4": "success",
}


def tell(post: Post, arrive: Callable[[list[Delivery]], list[Delivery]]) -> None:
    """Live through the story; after each step arrives what `arrive` makes of what was written so far."""
    for step in STORY:
        step(post.town)
        post.hand_over(arrive(post.take()))
        work(post.town)


def in_order(post: Post, _chance: random.Random) -> None:
    tell(post, lambda new: new)


def doubled(post: Post, _chance: random.Random) -> None:
    tell(post, lambda new: [delivery for delivery in new for _ in range(2)])


def repeated_later(post: Post, _chance: random.Random) -> None:
    seen: list[Delivery] = []
    tell(post, lambda new: [*seen, *new] if not seen.extend(new) else [])  # type: ignore[func-returns-value]


def shuffled(post: Post, chance: random.Random) -> None:
    held: list[Delivery] = []

    def some(new: list[Delivery]) -> list[Delivery]:
        held.extend(new)
        chance.shuffle(held)
        arriving, held[:] = held[: len(held) // 2], held[len(held) // 2 :]
        return arriving

    tell(post, some)
    post.hand_over(held)


def late(post: Post, chance: random.Random) -> None:
    held: list[Delivery] = []
    tell(post, lambda new: held.extend(new) or [])  # type: ignore[func-returns-value]
    chance.shuffle(held)
    post.hand_over(held)


def thinned(post: Post, chance: random.Random) -> None:
    tell(post, lambda new: [delivery for delivery in new if chance.random() > 0.3])
    look_everywhere(post.town)


def lost(post: Post, _chance: random.Random) -> None:
    tell(post, lambda _new: [])
    look_everywhere(post.town)


class TestFinalState:
    @pytest.mark.parametrize("arrival", [in_order, doubled, repeated_later, shuffled, late, thinned, lost])
    def test_final_state_does_not_depend_on_webhook_order(self, town: Town, post: Post, arrival: Arrival) -> None:
        seed = chosen_seed()
        arrival(post, random.Random(seed))
        post.run()
        work(town)
        assert disagreements(town) == {}
        assert town.conclusions() == END
        assert town.sql("SELECT owner || '/' || name FROM repositories ORDER BY 1") == [
            ("acme/backend",),
            ("acme/web",),
        ]
        watched = (
            "SELECT r.name, b.name FROM watched_branches b JOIN repositories r ON r.id = repository_id ORDER BY 1, 2"
        )
        assert town.sql(watched) == [("backend", "main"), ("web", "main"), ("web", "release/9")]
