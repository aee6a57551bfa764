"""User authorization at GitHub, and a client that acts once with the user's token.

Source: GitHub's pages "Generating a user access token for a GitHub App" and "Authorizing OAuth apps". A user token of
a GitHub App has the permissions that both the user and the App's installation have; a token of an OAuth App has those
of its `scope`, which a GitHub App ignores. The client may be either, but must be an OAuth App if the installation
lacks the permission. Only tokens of the App's own client can list the installations of a user (page "REST API endpoints
for GitHub App installations").

The token exists in the memory of one call only: it is never stored or logged, and is revoked after use.
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
from integrations.github.budget import RateLimitTracker
from integrations.github.calls import Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.responses import parsing, read_object
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
    """Client id and secret, hidden in `repr`."""

    def __repr__(self) -> str:
        return "the App's client secret"


@dataclass(frozen=True, slots=True)
class GitHubOAuthClient:
    """The client that users authorize: an OAuth App, or the GitHub App itself."""

    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Account:
    """A GitHub account; the id survives renames."""

    id: int
    login: str


class UserToken:
    """A user's token, which cannot be renewed."""

    def __init__(self, token: str) -> None:
        self._bearer = Bearer(token)

    def get(self) -> Bearer:
        """Return the token."""
        return self._bearer

    def discard_refused(self, refused: Bearer) -> None:
        """Keep the token: there is no other."""

    def discard(self) -> None:
        """Keep the token: a new one would have the same permissions."""

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Keep the token: a user's permissions do not depend on the App's."""


class UserClient:
    """GitHub's API with a user's token. Every method may raise `GitHubError`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def shared_deadline(self) -> AbstractContextManager[object]:
        """Set one deadline for all calls in the context, twice as long as that of a single call."""
        return self._calls.shared_deadline()

    def login(self) -> str:
        """Return the user's login at GitHub."""
        return str(self._calls.get_object("/user").get("login", ""))

    def account(self) -> Account:
        """Return the user's account."""
        payload = self._calls.get_object("/user")
        with parsing():
            return Account(int(payload["id"]), str(payload["login"]))

    def installations(self) -> Iterator[InstallationInfo]:
        """Yield the installations of the App that the user can access in any way; this proves no administration.

        GitHub allows it only for tokens of the App's own client.
        """
        for response in self._calls.get_pages("/user/installations"):
            with parsing():
                page = [installation_from_rest(entry) for entry in response.payload["installations"]]
            yield from page

    def administers(self, owner: str, name: str) -> bool:
        """True if the user is an administrator of a repository; False if they cannot see it."""
        try:
            found = self._calls.get_object(path("repos", owner, name))
        except GitHubError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.PERMISSION}:
                return False
            raise
        permissions = found.get("permissions")
        return isinstance(permissions, dict) and permissions.get("admin") is True

    def owns(self, organization: str) -> bool:
        """True if the user is an owner of an organisation."""
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


class UserAuthorization:
    """The OAuth flow: from the authorization URL to a client that acts for the user."""

    def __init__(
        self,
        settings: GitHubSettings,
        transport: Transport,
        client: GitHubOAuthClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._client = client
        self._clock = clock
        self._secret = _Secret(client.id, client.secret)

    def authorization_url(self, *, redirect_uri: str, state: str, code_challenge: str, scope: str) -> str:
        """Return the URL where a user authorizes us; GitHub Apps ignore `scope`."""
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
    def user_client(
        self, *, code: str, code_verifier: str | None = None, redirect_uri: str | None = None
    ) -> Iterator[UserClient]:
        """Exchange the code, yield a client of the user, and revoke the token at the end in any case.

        A code that GitHub issues with an installation has neither a verifier nor a redirect URI.
        Raise `GitHubError` (`rejected`) for a code that was used, has expired, or belongs to another authorization.
        """
        token = self._exchange(code, code_verifier, redirect_uri)
        try:
            calls = Calls(self._settings, self._transport, UserToken(token), RateLimitTracker(self._clock))
            yield UserClient(calls)
        finally:
            self._revoke(token)

    def check(self) -> None:
        """Raise `GitHubError` (`rejected`) unless GitHub knows the client's id and secret.

        GitHub judges them before the code: one that it never issued is `bad_verification_code`.
        https://docs.github.com/en/apps/oauth-apps/maintaining-oauth-apps/troubleshooting-oauth-app-access-token-request-errors
        """
        try:
            self._exchange("a code that does not exist", None, None)
        except GitHubError as error:
            if error.kind != ErrorKind.REJECTED or "bad_verification_code" not in str(error):
                raise

    def _exchange(self, code: str, code_verifier: str | None, redirect_uri: str | None) -> str:
        body = {"client_id": self._client.id, "client_secret": self._client.secret, "code": code}
        if redirect_uri is not None:
            body["redirect_uri"] = redirect_uri
        if code_verifier is not None:
            body["code_verifier"] = code_verifier
        url = f"{self._settings.web_url.rstrip('/')}/login/oauth/access_token"
        response = self._transport.send(Request("POST", url, body=body, accept=_JSON), _Anonymous())
        payload = read_object(response, safe=False)
        token = payload.get("access_token")
        if isinstance(token, str) and token:
            return token
        reason = payload.get("error")
        detail = reason if isinstance(reason, str) and reason.isidentifier() else "no token"
        raise GitHubError(ErrorKind.REJECTED, f"GitHub did not accept the authorisation ({detail})")

    def _revoke(self, token: str) -> None:
        """Revoke the token; an unknown one is already revoked. It expires within hours in any case."""
        client = quote(self._client.id, safe="")
        url = f"{self._settings.api_url.rstrip('/')}/applications/{client}/token"
        request = Request("DELETE", url, body={"access_token": token}, safe=True)
        try:
            status = self._transport.send(request, self._secret).status
        except GitHubError:
            status = 0
        if status not in {204, 404, 422}:
            logger.warning("revoking a user token failed (status %s)", status)
