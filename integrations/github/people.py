"""Acting once for a person: GitHub's user authorisation, and what is done with the token it gives.

Source: GitHub's pages "Generating a user access token for a GitHub App" and "Authorizing OAuth apps". What a user
token of a GitHub App may do is what both the person and the App's installation may; an OAuth App's may do what its
`scope` says, which a GitHub App ignores. So the client may be either, and without the installation's permission it
has to be an OAuth App's. Which installations a person can reach is told to tokens of the App's own client alone (page
"REST API endpoints for GitHub App installations").

The token lives in the memory of one call: it is never stored, never logged, and is revoked when the work is done.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from requests.auth import AuthBase, HTTPBasicAuth

from integrations.github import rulesets
from integrations.github.answers import read_object, reading
from integrations.github.budget import Meter
from integrations.github.calls import Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.settings import GitHubSettings
from integrations.github.transport import Bearer, Request, Transport
from integrations.github.values import InstallationInfo, installation_from_rest

logger = logging.getLogger(__name__)

_JSON = "application/json"


class _Anonymous(AuthBase):
    """No credential, not even one of a `.netrc`."""

    def __call__(self, request: Any) -> Any:
        """Leave the request as it is."""
        return request


class _Secret(HTTPBasicAuth):
    """Client id and secret, which show nothing of themselves."""

    def __repr__(self) -> str:
        return "the App's client secret"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """As which client we ask people: an OAuth App, or the GitHub App itself."""

    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Account:
    """Who a person is at GitHub; the id outlives renames."""

    id: int
    login: str


class PersonToken:
    """A person's token, which nothing can replace."""

    def __init__(self, token: str) -> None:
        self._bearer = Bearer(token)

    def get(self) -> Bearer:
        """Return it."""
        return self._bearer

    def drop(self, refused: Bearer) -> None:
        """Keep it: there is no other."""

    def forget(self) -> None:
        """Keep it: a new one would be allowed no more."""

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Keep it: what a person may do is not the App's affair."""


class PersonClient:
    """GitHub, seen by one person. Every method may raise `GitHubError`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def together(self) -> AbstractContextManager[object]:
        """Give every call inside one common deadline: that of a single call."""
        return self._calls.deadline()

    def login(self) -> str:
        """Return the name that the person has at GitHub."""
        return str(self._calls.get_object("/user").get("login", ""))

    def account(self) -> Account:
        """Return who the person is."""
        payload = self._calls.get_object("/user")
        with reading():
            return Account(int(payload["id"]), str(payload["login"]))

    def installations(self) -> Iterator[InstallationInfo]:
        """Yield the installations of the App that the person can reach in any way: being listed proves no more.

        Only for a token of the App's own client; GitHub denies it to others.
        """
        for answer in self._calls.get_pages("/user/installations"):
            with reading():
                page = [installation_from_rest(entry) for entry in answer.payload["installations"]]
            yield from page

    def administers(self, owner: str, name: str) -> bool:
        """Tell whether the person is an administrator of a repository; one that they cannot see is not theirs."""
        try:
            found = self._calls.get_object(path("repos", owner, name))
        except GitHubError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.PERMISSION}:
                return False
            raise
        permissions = found.get("permissions")
        return isinstance(permissions, dict) and permissions.get("admin") is True

    def owns(self, organization: str) -> bool:
        """Tell whether the person is an owner of an organisation."""
        try:
            found = self._calls.get_object(path("user", "memberships", "orgs", organization))
        except GitHubError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.PERMISSION}:
                return False
            raise
        return found.get("role") == "admin" and found.get("state") == "active"

    def repository_rulesets(self, owner: str, name: str) -> rulesets.Rulesets:
        """Return access to a repository's rulesets."""
        return rulesets.repository_rulesets(self._calls, owner, name)

    def organization_rulesets(self, organization: str) -> rulesets.Rulesets:
        """Return access to an organisation's rulesets."""
        return rulesets.organization_rulesets(self._calls, organization)


class People:
    """The way from a person's authorisation to a client that acts for them."""

    def __init__(
        self,
        settings: GitHubSettings,
        transport: Transport,
        client: OAuthClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._client = client
        self._clock = clock
        self._secret = _Secret(client.id, client.secret)

    def authorization_url(self, *, redirect_uri: str, state: str, code_challenge: str, scope: str) -> str:
        """Return the address where a person authorises us; `scope` counts for OAuth Apps only."""
        query = {
            "client_id": self._client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": code_challenge,
            "code_challenge_method": "S256",
            "scope": scope,
        }
        return f"{self._settings.web_url.rstrip('/')}/login/oauth/authorize?{urlencode(query)}"

    @contextmanager
    def acting(
        self, *, code: str, code_verifier: str | None = None, redirect_uri: str | None = None
    ) -> Iterator[PersonClient]:
        """Exchange the code, yield a client of the person, and revoke the token at the end, whatever happens.

        A code that GitHub gives out with an installation has neither verifier nor address.
        Raises `GitHubError` (`rejected`) for a code that is used up, too old, or of another authorisation.
        """
        token = self._exchange(code, code_verifier, redirect_uri)
        try:
            calls = Calls(self._settings, self._transport, PersonToken(token), Meter(self._clock))
            yield PersonClient(calls)
        finally:
            self._revoke(token)

    def _exchange(self, code: str, code_verifier: str | None, redirect_uri: str | None) -> str:
        body = {"client_id": self._client.id, "client_secret": self._client.secret, "code": code}
        if redirect_uri is not None:
            body["redirect_uri"] = redirect_uri
        if code_verifier is not None:
            body["code_verifier"] = code_verifier
        url = f"{self._settings.web_url.rstrip('/')}/login/oauth/access_token"
        answer = self._transport.send(Request("POST", url, body=body, accept=_JSON), _Anonymous())
        payload = read_object(answer, safe=False)
        token = payload.get("access_token")
        if isinstance(token, str) and token:
            return token
        reason = payload.get("error")
        told = reason if isinstance(reason, str) and reason.isidentifier() else "no token"
        raise GitHubError(ErrorKind.REJECTED, f"GitHub did not accept the authorisation ({told})")

    def _revoke(self, token: str) -> None:
        """End the token; one that GitHub does not know any more has ended. It ends by itself within hours."""
        client = quote(self._client.id, safe="")
        url = f"{self._settings.api_url.rstrip('/')}/applications/{client}/token"
        request = Request("DELETE", url, body={"access_token": token}, safe=True)
        try:
            status = self._transport.send(request, self._secret).status
        except GitHubError:
            status = 0
        if status not in {204, 404, 422}:
            logger.warning("a person's token could not be revoked (status %s)", status)
