"""The state of the simulated GitHub and what everything else reads: settings, credentials, faults, limits, counters."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tools.fake_github.calls import Calls
from tools.fake_github.identity import Credentials
from tools.fake_github.limits import Limits
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.records import Account, Repository
from tools.fake_github.model.world import World
from tools.fake_github.payloads.view import View
from tools.fake_github.settings import Settings
from tools.simulation.faults import Faults

MAINTAINER = "maintainer"


class Core:
    """The world, the App that is registered in it, and the person `maintainer`, who owns everything."""

    def __init__(self, app_id: int, app_slug: str, app_public_key: str | None, person_token: str) -> None:
        self.app_id, self.app_slug = app_id, app_slug
        self.app_public_key, self.person_token = app_public_key, person_token
        self.base_url: str = "http://localhost"
        self.world = World()
        self.view = View(self.world, self.base_url)
        self.settings = Settings()
        self.world.ruleset_delay = self._ruleset_delay
        self.faults = Faults("null_check_run")
        self.calls = Calls()
        self.credentials = Credentials(self.world)
        self.limits = Limits(self.world, self.settings, self.calls)

    def register(self) -> None:
        """Add the App and the maintainer if they are missing."""
        self.app = register_app(self.world, self.app_id, self.app_slug, self.app_public_key)
        self.world.add_account(MAINTAINER, "User", self.person_token)

    @property
    def maintainer(self) -> Account:
        """Return the person whose token is `person_token`."""
        return self.world.logins[MAINTAINER]

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """The lock of the world."""
        return self.world.lock

    def use_base_url(self, url: str) -> None:
        """Write all URLs under this base from now on."""
        self.base_url = self.view.base = url
        self.view.repositories.clear()

    def _ruleset_delay(self, repository: Repository) -> float:
        """Return after how many seconds a changed ruleset is enforced in a repository."""
        name = self.world.full_name(repository).lower()
        return self.settings.ruleset_delays.get(name, self.settings.ruleset_delay_seconds)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Change the world without webhooks, counters or reactions."""
        with self.world.lock:
            listeners, self.world.listeners = self.world.listeners, []
            try:
                yield
            finally:
                self.world.listeners = listeners
                self.world.changes += 1
