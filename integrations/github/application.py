"""The GitHub App: its description, its installations, and a client for each of them."""

import threading
import time
from collections.abc import Callable
from typing import Any

from integrations.github.budget import RateLimitTracker
from integrations.github.calls import Calls
from integrations.github.client import InstallationClient
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.responses import parsing, read_object
from integrations.github.settings import GitHubSettings
from integrations.github.tokens import AppCalls, AppTokens, InstallationToken
from integrations.github.transport import Transport
from integrations.github.users import GitHubOAuthClient, UserAuthorization
from integrations.github.values import InstallationInfo, installation_from_rest
from integrations.github.webhook_log import DeliveryLog


class GitHub:
    """Access to GitHub for one process: a connection pool, the App, a cached client for each installation."""

    def __init__(self, settings: GitHubSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._transport = Transport(settings)
        self._app = AppCalls(settings, self._transport, AppTokens(settings, clock))
        self.webhook_log = DeliveryLog(self._app, RateLimitTracker(clock))
        """What GitHub has sent to the App, and with what result."""
        self._clients: dict[int, InstallationClient] = {}
        self._lock = threading.Lock()

    def app(self) -> dict[str, Any]:
        """Return GitHub's description of the App."""
        return read_object(self._app.send("GET", "/app"))

    def webhook_settings(self) -> dict[str, Any]:
        """Return where GitHub delivers the App's webhooks: `url`, `content_type`, `insecure_ssl`.

        https://docs.github.com/en/rest/apps/webhooks#get-a-webhook-configuration-for-an-app
        """
        return read_object(self._app.send("GET", "/app/hook/config"))

    def installation(self, installation_id: int) -> InstallationInfo:
        """Return one installation. Raise `GitHubError` (`installation_removed`) if it does not exist."""
        response = self._app.send("GET", f"/app/installations/{installation_id}")
        if response.status in {404, 410}:
            raise GitHubError(
                ErrorKind.INSTALLATION_REMOVED, "The App is no longer installed there", status=response.status
            )
        payload = read_object(response)
        with parsing():
            return installation_from_rest(payload)

    @property
    def user_authorization(self) -> UserAuthorization | None:
        """User authorization by the OAuth client; None if its secret is not configured."""
        if not self.settings.client_id or not self.settings.client_secret:
            return None
        client = GitHubOAuthClient(self.settings.client_id, self.settings.client_secret)
        return UserAuthorization(self.settings, self._transport, client, self._clock)

    @property
    def installer_authorization(self) -> UserAuthorization | None:
        """User authorization by the App's own client; None if its secret is not configured."""
        if not self.settings.app_client_id or not self.settings.app_client_secret:
            return None
        client = GitHubOAuthClient(self.settings.app_client_id, self.settings.app_client_secret)
        return UserAuthorization(self.settings, self._transport, client, self._clock)

    def client(self, installation_id: int) -> InstallationClient:
        """Return the client of an installation, always the same one."""
        with self._lock:
            found = self._clients.get(installation_id)
            if found is None:
                token = InstallationToken(installation_id, self._app, self._clock)
                calls = Calls(self.settings, self._transport, token, RateLimitTracker(self._clock))
                found = self._clients[installation_id] = InstallationClient(installation_id, calls)
            return found

    def forget_pauses(self, installation_id: int, *, older_than: float) -> None:
        """Forget the pauses of an installation that began more than so many seconds ago: somebody has ended them."""
        with self._lock:
            found = self._clients.get(installation_id)
        if found is not None:
            found.forget_pauses(older_than)
