"""The simulated GitHub as one object."""

from datetime import datetime
from pathlib import Path
from typing import Any

from tools.fake_github import persistence
from tools.fake_github.builder import OrganizationBuilder
from tools.fake_github.core import Core
from tools.fake_github.model.reactions import reactions
from tools.fake_github.oauth import OAuth
from tools.fake_github.webhooks.sender import Sender

PERSON_TOKEN = "fake-github-maintainer-token"  # noqa: S105 -- opens nothing but this simulation


class FakeGitHub(Core):
    """A simulated GitHub: state, rules, credentials, webhooks, faults, limits and counters.

    `person_token` is the access token of the account `maintainer`. If the file `state` exists, the world is read from
    it; `save` writes it. `tools.fake_github.serve` serves it over HTTP.
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
        super().__init__(app_id, app_slug, app_public_key, person_token)
        self.oauth = OAuth(self)
        self.manifests: dict[str, tuple[dict[str, Any], datetime]] = {}
        """Manifests of Apps that wait to be exchanged, by their codes, and when they end."""
        self.sender = Sender(self)
        self.state = state
        if state:
            persistence.load(self, state)
        self.settings.webhook_url = webhook_url or self.settings.webhook_url
        self.settings.webhook_secret = webhook_secret or self.settings.webhook_secret
        self.register()
        self.world.listeners = [self.calls.receive, self.sender.receive, reactions(self.world)]
        self._saved = -1

    def reset(self) -> None:
        """Delete everything but the App, the maintainer and the settings."""
        with self.world.lock:
            self.world.clear()
            self.view.repositories.clear()
            self.view.accounts.clear()
            self.faults.clear()
            self.calls.reset()
            self.limits.reset()
            self.oauth.reset()
            self.manifests.clear()
            self.sender.forget()
            self.register()

    def save(self) -> None:
        """Write the state file, if there is one and something changed."""
        if self.state and self._saved != self.world.changes:
            changes = self.world.changes
            persistence.save(self, self.state)
            self._saved = changes

    def organization(self, login: str) -> OrganizationBuilder:
        """Return the builder of an organisation, which is added if it is missing."""
        return OrganizationBuilder(self, self.world.add_account(login, "Organization"))
