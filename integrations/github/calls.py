"""API calls with one token: rate limits, deadline, and one retry after a rejected token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from integrations.github.budget import RateLimitTracker, Resource
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import LIMITS, Data, read_data
from integrations.github.responses import error_of, next_page, read_list, read_object, require_success
from integrations.github.settings import GitHubSettings
from integrations.github.sockets import Deadline
from integrations.github.transport import Bearer, Request, Response, Transport, unavailable

_T = TypeVar("_T")


def path(*segments: str | int) -> str:
    """Return a path of encoded segments; a `/` in a branch name is encoded."""
    if any(str(segment) in {"", ".", ".."} for segment in segments):
        raise GitHubError(ErrorKind.NOT_FOUND, "GitHub has no object with that name")
    return "".join("/" + quote(str(segment), safe="") for segment in segments)


class Token(Protocol):
    """The token of the calls: an installation's or a user's."""

    def get(self) -> Bearer:
        """Return a valid token. Raise `GitHubError`."""

    def discard_refused(self, refused: Bearer) -> None:
        """Discard a token that GitHub rejected."""

    def discard(self) -> None:
        """Discard the token, because a new one may have more permissions."""

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Discard a token that was created with other permissions than these."""


class BeforeRequest(Protocol):
    """A hook that runs before each request. It may raise `GitHubError` to prevent the request."""

    def __call__(self, *, writes: bool) -> object:
        """Handle a request that is about to be sent."""


class Calls:
    """API calls for one installation or one user; thread-safe."""

    def __init__(
        self,
        settings: GitHubSettings,
        transport: Transport,
        token: Token,
        limits: RateLimitTracker,
        before_request: BeforeRequest | None = None,
    ) -> None:
        self._settings = settings
        self._base = settings.api_url.rstrip("/")
        self._transport = transport
        self._token = token
        self.limits = limits
        self._before_request = before_request

    def with_hook(self, before_request: BeforeRequest) -> "Calls":
        """Return a copy that calls `before_request` before each request."""
        return Calls(self._settings, self._transport, self._token, self.limits, before_request)

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Use a token with these permissions from now on."""
        self._token.renew_for(permissions)

    def shared_deadline(self) -> AbstractContextManager[Deadline]:
        """Set one deadline for all calls in the context."""
        return self._transport.deadline(shared=True)

    def get_object(self, route: str, **query: str | int) -> dict[str, Any]:
        """GET one object."""
        return self._request("rest", self._rest("GET", route, query), read_object)

    def get_pages(self, route: str, **query: str | int) -> Iterator[Response]:
        """GET a list and yield its pages, following `Link` on the same host only."""
        request = self._rest("GET", route, {"per_page": 100, **query})
        while True:
            response = self._request("rest", request, _require_ok)
            yield response
            url = next_page(response)
            if url is None:
                return
            self._transport.check_origin(url)
            request = Request("GET", url, safe=True)

    def get_lists(self, route: str, **query: str | int) -> Iterator[Any]:
        """GET and yield the elements of a paginated list."""
        for response in self.get_pages(route, **query):
            yield from read_list(response)

    def write(self, method: str, route: str, body: Any) -> dict[str, Any]:
        """POST, PATCH or PUT an object. If the outcome is unknown, the error has `maybe_applied`."""
        return self._request(
            "rest", self._rest(method, route, {}, body), lambda response: read_object(response, safe=False)
        )

    def delete(self, route: str) -> None:
        """DELETE an object."""
        self._request("rest", self._rest("DELETE", route, {}), require_success)

    def query(self, document: str, variables: Mapping[str, Any]) -> Data:
        """Send one GraphQL query."""
        return self._graphql(document, variables, mutates=False)

    def mutate(self, document: str, variables: Mapping[str, Any]) -> Data:
        """Send one GraphQL mutation. If the outcome is unknown, the error has `maybe_applied`."""
        return self._graphql(document, variables, mutates=True)

    def _graphql(self, document: str, variables: Mapping[str, Any], *, mutates: bool) -> Data:
        body = {"query": document, "variables": variables}
        request = Request("POST", self._settings.graphql_url, body=body, safe=not mutates)
        return self._request("graphql", request, lambda response: read_data(response, mutates=mutates))

    def _rest(self, method: str, route: str, query: Mapping[str, str | int], body: Any = None) -> Request:
        url = self._base + route + ("?" + urlencode(query) if query else "")
        return Request(method, url, body=body, safe=method == "GET")

    def _request(self, resource: Resource, request: Request, parse: Callable[[Response], _T]) -> _T:
        with self._transport.deadline():
            self.limits.check(resource)
            if self._before_request is not None:
                self._before_request(writes=not request.safe)
            try:
                response = self._send(request)
                self.limits.observe(response.headers)
                value = parse(response)
            except GitHubError as error:
                if error.kind in LIMITS:
                    self.limits.limited(error, resource)
                if error.kind is ErrorKind.PERMISSION and not request.safe:
                    self._token.discard()
                raise
            self._track_limits(value, resource)
            if not request.safe and isinstance(value, Data) and value.denied:
                self._token.discard()
            return value

    def _track_limits(self, value: object, resource: Resource) -> None:
        """Pause if a rate limit cut the response short, else reset the doubling of pauses."""
        limits = value.limits if isinstance(value, Data) else []
        if not limits:
            self.limits.succeeded()
            return
        self.limits.limited(limits[0], resource)
        for limit in limits[1:]:
            limit.retry_after = limits[0].retry_after

    def _send(self, request: Request) -> Response:
        """Send a request, and retry once with a new token if GitHub rejects the cached one.

        A rejected new token does not mean that the installation was removed, because GitHub has just issued it. It
        takes some seconds until a token is known everywhere, so the error is transient.
        """
        bearer = self._token.get()
        response = self._transport.send(request, bearer)
        if response.status != 401:
            return response
        self._token.discard_refused(bearer)
        response = self._transport.send(request, self._token.get())
        if response.status == 401:
            raise unavailable("rejects a new token", maybe_applied=False, status=401)
        return response


def _require_ok(response: Response) -> Response:
    if response.status != 200:
        raise error_of(response)
    return response
