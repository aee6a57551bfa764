"""Calls made for one installation: its token, its pauses, its budget, and one second try after a refused token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from requests.utils import parse_header_links

from integrations.github.answers import read_list, read_nothing, read_object, refusal
from integrations.github.budget import Meter, Resource
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import LIMITS, Data, read_data
from integrations.github.settings import GitHubSettings
from integrations.github.sockets import Stopwatch
from integrations.github.transport import Answer, Bearer, Request, Transport, unavailable

_T = TypeVar("_T")


def path(*segments: str | int) -> str:
    """Return a path of encoded segments; a `/` inside a branch's name stays inside its segment."""
    if any(str(segment) in {"", ".", ".."} for segment in segments):
        raise GitHubError(ErrorKind.NOT_FOUND, "GitHub has no object of that name")
    return "".join("/" + quote(str(segment), safe="") for segment in segments)


def next_page(answer: Answer) -> str | None:
    """Return the address of the next page from the `Link` header, or None on the last one."""
    for link in parse_header_links(answer.headers.get("link", "")):
        if link.get("rel") == "next":
            return str(link["url"])
    return None


class Token(Protocol):
    """The token that calls are made with: an installation's, or a person's."""

    def get(self) -> Bearer:
        """Return a token that is good now; raises `GitHubError`."""

    def drop(self, refused: Bearer) -> None:
        """Forget a token that was refused."""

    def forget(self) -> None:
        """Forget the token: another one may be allowed more."""

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Forget a token that does not know these permissions."""


class Ahead(Protocol):
    """What is called ahead of each call; it may raise `GitHubError` to prevent the call."""

    def __call__(self, *, writes: bool) -> object:
        """Be told of a call, which reads or writes."""


class Calls:
    """The way to GitHub for one installation, or one person; safe for many threads."""

    def __init__(
        self, settings: GitHubSettings, transport: Transport, token: Token, meter: Meter, ahead: Ahead | None = None
    ) -> None:
        self._settings = settings
        self._base = settings.api_url.rstrip("/")
        self._transport = transport
        self._token = token
        self.meter = meter
        self._ahead = ahead

    def after(self, ahead: Ahead) -> "Calls":
        """Return the same way to GitHub, on which `ahead` is called before each call."""
        return Calls(self._settings, self._transport, self._token, self.meter, ahead)

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Use a token that knows these permissions from now on."""
        self._token.renew_for(permissions)

    def deadline(self) -> AbstractContextManager[Stopwatch]:
        """Give every call inside one common deadline."""
        return self._transport.deadline()

    def get_object(self, route: str, **query: str | int) -> dict[str, Any]:
        """GET one object."""
        return self._read("rest", self._rest("GET", route, query), read_object)

    def get_pages(self, route: str, **query: str | int) -> Iterator[Answer]:
        """GET a list page by page, following `Link` on the same host only."""
        request = self._rest("GET", route, {"per_page": 100, **query})
        while True:
            answer = self._read("rest", request, _unread)
            yield answer
            url = next_page(answer)
            if url is None:
                return
            self._transport.check_origin(url)
            request = Request("GET", url, safe=True)

    def get_lists(self, route: str, **query: str | int) -> Iterator[Any]:
        """GET every element of a paginated list."""
        for answer in self.get_pages(route, **query):
            yield from read_list(answer)

    def write(self, method: str, route: str, body: Any) -> dict[str, Any]:
        """POST, PATCH or PUT an object; an uncertain outcome has `maybe_applied`."""
        return self._read("rest", self._rest(method, route, {}, body), lambda answer: read_object(answer, safe=False))

    def delete(self, route: str) -> None:
        """DELETE an object."""
        self._read("rest", self._rest("DELETE", route, {}), read_nothing)

    def query(self, document: str, variables: Mapping[str, Any]) -> Data:
        """Send one GraphQL query."""
        return self._graphql(document, variables, mutates=False)

    def mutate(self, document: str, variables: Mapping[str, Any]) -> Data:
        """Send one GraphQL mutation; an uncertain outcome has `maybe_applied`."""
        return self._graphql(document, variables, mutates=True)

    def _graphql(self, document: str, variables: Mapping[str, Any], *, mutates: bool) -> Data:
        body = {"query": document, "variables": variables}
        request = Request("POST", self._settings.graphql_url, body=body, safe=not mutates)
        return self._read("graphql", request, lambda answer: read_data(answer, mutates=mutates))

    def _rest(self, method: str, route: str, query: Mapping[str, str | int], body: Any = None) -> Request:
        url = self._base + route + ("?" + urlencode(query) if query else "")
        return Request(method, url, body=body, safe=method == "GET")

    def _read(self, resource: Resource, request: Request, read: Callable[[Answer], _T]) -> _T:
        with self._transport.deadline():
            self.meter.check(resource)
            if self._ahead is not None:
                self._ahead(writes=not request.safe)
            try:
                answer = self._send(request)
                self.meter.observe(answer.headers)
                value = read(answer)
            except GitHubError as error:
                if error.kind in LIMITS:
                    self.meter.refused(error, resource)
                if error.kind is ErrorKind.PERMISSION and not request.safe:
                    self._token.forget()
                raise
            self._note(value, resource)
            if not request.safe and isinstance(value, Data) and value.denied:
                self._token.forget()
            return value

    def _note(self, value: object, resource: Resource) -> None:
        """Pause after an answer that a limit cut short; any other answer ends a row of refusals."""
        limits = value.limits if isinstance(value, Data) else []
        if not limits:
            self.meter.succeeded()
            return
        self.meter.refused(limits[0], resource)
        for limit in limits[1:]:
            limit.retry_after = limits[0].retry_after

    def _send(self, request: Request) -> Answer:
        """Send, and once more with a fresh token if GitHub refuses the one we had.

        A refused fresh token is no removed installation, for GitHub has just granted it: copies of a grant need
        some seconds to arrive everywhere, so that is an error that passes.
        """
        bearer = self._token.get()
        answer = self._transport.send(request, bearer)
        if answer.status != 401:
            return answer
        self._token.drop(bearer)
        answer = self._transport.send(request, self._token.get())
        if answer.status == 401:
            raise unavailable("refuses a fresh token", maybe_applied=False, status=401)
        return answer


def _unread(answer: Answer) -> Answer:
    if answer.status != 200:
        raise refusal(answer)
    return answer
