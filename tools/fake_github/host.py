"""The code host as one object: the world and everything around it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.fake_github import persistence
from tools.fake_github.calls import Calls
from tools.fake_github.faults import Faults
from tools.fake_github.limits import Limits
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.reactions import reactions
from tools.fake_github.model.records import Account
from tools.fake_github.model.world import World
from tools.fake_github.payloads.view import View
from tools.fake_github.people import People
from tools.fake_github.rest.identity import Credentials
from tools.fake_github.settings import Settings
from tools.fake_github.webhooks.sender import Sender

if TYPE_CHECKING:
    from tools.fake_github.builder import OrganizationBuilder

MAINTAINER = "maintainer"
PERSON_TOKEN = "fake-github-maintainer-token"  # noqa: S105 -- opens nothing but this simulation


class FakeGitHub:
    """A simulated GitHub: state, rules, credentials, webhooks, faults, limits and counters.

    `person_token` is the access token of the account `maintainer`. With `state`, the world is read from that file
    when it
    exists; `save` writes it. Serve it over HTTP with `tools.fake_github.serve`.
    """

    def __init__(
        self,
        *,
        app_id: int = 1,
        app_slug: str = "change-freeze",
        app_public_key: str | None = None,
        webhook_url: str | None = None,
        webhook_secret: str | None = None,
        person_token: str = PERSON_TOKEN,
        state: Path | None = None,
    ) -> None:
        self.app_id, self.app_slug, self.state = app_id, app_slug, state
        self.app_public_key, self.person_token = app_public_key, person_token
        self.base_url: str = "http://localhost"
        self.world = World()
        self.view = View(self.world, self.base_url)
        self.settings = Settings()
        self.faults = Faults()
        self.calls = Calls()
        self.people = People(self)
        self.credentials = Credentials(self.world)
        self.limits = Limits(self.world, self.settings, self.calls)
        self.sender = Sender(self)
        if state:
            persistence.load(self, state)
        self.settings.webhook_url = webhook_url or self.settings.webhook_url
        self.settings.webhook_secret = webhook_secret or self.settings.webhook_secret
        self._begin()
        self.world.listeners = [self.calls.heard, self.sender.heard, reactions(self.world)]
        self._saved = -1

    def _begin(self) -> None:
        """Make sure that the App and the maintainer are there."""
        self.app = register_app(self.world, self.app_id, self.app_slug, self.app_public_key)
        self.world.add_account(MAINTAINER, "User", self.person_token)

    @property
    def maintainer(self) -> Account:
        """Return the person whose token was given."""
        return self.world.logins[MAINTAINER]

    def use_base_url(self, url: str) -> None:
        """Write all URLs under this base from now on."""
        self.base_url = self.view.base = url
        self.view.repositories.clear()

    def reset(self) -> None:
        """Forget everything but App, maintainer and settings of webhooks."""
        with self.world.lock:
            self.world.clear()
            self.view.repositories.clear()
            self.view.accounts.clear()
            self.faults.clear()
            self.calls.reset()
            self.limits.reset()
            self.people.reset()
            self.sender.deliveries.clear()
            self._begin()

    def save(self) -> None:
        """Write the state file, if there is one and something changed."""
        if self.state and self._saved != self.world.changes:
            changes = self.world.changes
            persistence.save(self, self.state)
            self._saved = changes

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

    def organization(self, login: str) -> "OrganizationBuilder":
        """Begin building an organisation, or go on with one."""
        from tools.fake_github.builder import OrganizationBuilder

        return OrganizationBuilder(self, self.world.add_account(login, "Organization"))
