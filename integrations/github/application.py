"""GitHub as the App sees it: who it is, where it is installed, and a client for each of those places."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from integrations.github.answers import read_list, read_object, reading
from integrations.github.budget import Meter
from integrations.github.calls import Calls, next_page
from integrations.github.client import InstallationClient
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.people import OAuthClient, People
from integrations.github.settings import GitHubSettings
from integrations.github.tokens import AppCalls, AppTokens, InstallationToken
from integrations.github.transport import Transport
from integrations.github.values import InstallationInfo, installation_from_rest


class GitHub:
    """The process's way to GitHub: one connection pool, one App, a cached client for each installation."""

    def __init__(self, settings: GitHubSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._transport = Transport(settings)
        self._app = AppCalls(settings, self._transport, AppTokens(settings, clock))
        self._clients: dict[int, InstallationClient] = {}
        self._lock = threading.Lock()

    def app(self) -> dict[str, Any]:
        """Return GitHub's description of the App."""
        return read_object(self._app.send("GET", "/app"))

    def installation(self, installation_id: int) -> InstallationInfo:
        """Return one installation; `installation_removed` where there is none."""
        answer = self._app.send("GET", f"/app/installations/{installation_id}")
        if answer.status in {404, 410}:
            raise GitHubError(
                ErrorKind.INSTALLATION_REMOVED, "The App is not installed there any more", status=answer.status
            )
        payload = read_object(answer)
        with reading():
            return installation_from_rest(payload)

    def installations(self) -> Iterator[InstallationInfo]:
        """Yield every installation of the App, suspended ones too."""
        url: str | None = "/app/installations?per_page=100"
        while url is not None:
            answer = self._app.send("GET", url)
            listed = read_list(answer)
            with reading():
                page = [installation_from_rest(entry) for entry in listed]
            yield from page
            url = next_page(answer)
            if url is not None:
                self._transport.check_origin(url)

    @property
    def people(self) -> People | None:
        """Return the way to act for a person, or None where this App has no client secret."""
        if not self.settings.client_id or not self.settings.client_secret:
            return None
        client = OAuthClient(self.settings.client_id, self.settings.client_secret)
        return People(self.settings, self._transport, client, self._clock)

    @property
    def installers(self) -> People | None:
        """Return the way to act for a person by the App's own client, or None where its secret is not known."""
        if not self.settings.app_client_id or not self.settings.app_client_secret:
            return None
        client = OAuthClient(self.settings.app_client_id, self.settings.app_client_secret)
        return People(self.settings, self._transport, client, self._clock)

    def client(self, installation_id: int) -> InstallationClient:
        """Return the client of an installation, always the same one."""
        with self._lock:
            found = self._clients.get(installation_id)
            if found is None:
                token = InstallationToken(installation_id, self._app, self._clock)
                calls = Calls(self.settings, self._transport, token, Meter(self._clock))
                found = self._clients[installation_id] = InstallationClient(installation_id, calls)
            return found
