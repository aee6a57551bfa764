"""Where shapes are made: the world, and the base under which its URLs are written."""

from dataclasses import dataclass, field
from typing import Any

from tools.fake_github.model.records import App, CheckRun, Installation
from tools.fake_github.model.world import World

Json = dict[str, Any]


@dataclass(slots=True)
class View:
    """The world as seen at a base URL; remembers the shapes of repositories and accounts, which rarely change."""

    world: World
    base: str
    repositories: dict[int, tuple[tuple[Any, ...], Json]] = field(default_factory=dict)
    accounts: dict[tuple[int, str, str], Json] = field(default_factory=dict)

    def app(self, owned: CheckRun | Installation) -> App:
        """Return the App that wrote a run or is installed; a nameless one when it is not registered here."""
        found = self.world.apps.get(owned.app_id)
        return found or App(
            owned.app_id, f"A_{owned.app_id}", f"app-{owned.app_id}", "Another App", 0, 0, "2020-01-01T00:00:00Z"
        )
