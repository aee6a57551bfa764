"""What follows from an event: queues advance, and pull requests with auto-merge are merged."""

from collections.abc import Callable

from tools.fake_github.model import queue
from tools.fake_github.model.merges import merge_waiting
from tools.fake_github.model.world import Actor, Event, World

LEAVING = {"synchronize", "closed", "converted_to_draft"}


def reactions(world: World) -> Callable[[Event], None]:
    """Make the listener that keeps queues and waiting merges going."""

    def react(event: Event) -> None:
        """Advance queues and merge after a check; remove changed pull requests from their queues."""
        repository, facts = event.repository, event.facts
        if repository is None:
            return
        if event.name == "check_run" and event.action == "completed":
            sha = facts["run"].head_sha
            entry = world.groups.get((repository.id, sha))
            if entry is not None:
                queue.advance(world, repository, entry.base_ref)
            merge_waiting(world, repository, sha)
        elif event.name == "pull_request" and world.queues:
            retargeted = event.action == "edited" and "base" in facts["changes"]
            if event.action in LEAVING or retargeted:
                queue.leave_when_changed(world, Actor(event.sender), repository, facts["pull"])

    return react
