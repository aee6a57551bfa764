"""HTTP exchanges with GitHub: pooled, bounded in time and size, without redirects to other hosts."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
import requests
from requests.auth import AuthBase
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.settings import GitHubSettings, origin
from integrations.github.sockets import CALL_DEADLINE, Deadline, DeadlineAdapter
from integrations.spans import call_span

_MAX_RESPONSE_BYTES = 20 * 1024 * 1024
_MAX_REDIRECTS = 3
_TRANSPORT_ERRORS = (requests.RequestException, HTTPError, OSError)
_POOL_SIZE = 32
_REDIRECTS_OF_GET = {301, 302, 307, 308}
_REDIRECTS_OF_WRITES = {307, 308}


class Bearer(AuthBase):
    """A token that is hidden in `repr`, also in tracebacks that print variables.

    Passed to `requests` as `auth`, so that no `.netrc` entry replaces it.
    """

    __slots__ = ("_token",)

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the token to a request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `safe` is True if it may be sent twice (idempotent)."""

    method: str
    url: str
    body: Any = None
    safe: bool = False
    accept: str | None = None
    """The `Accept` header, if it is not the API's."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete HTTP response; `payload` is the JSON, or None if there is none or it is invalid."""

    status: int
    headers: Mapping[str, str]
    payload: Any

    @property
    def message(self) -> str:
        """GitHub's error message, truncated, or an empty string."""
        message = self.payload.get("message") if isinstance(self.payload, dict) else None
        return message[:300] if isinstance(message, str) else ""


def unavailable(reason: str, *, maybe_applied: bool, status: int | None = None) -> GitHubError:
    """Return the error for a missing or unreadable response."""
    return GitHubError(ErrorKind.UNAVAILABLE, f"GitHub {reason}", maybe_applied=maybe_applied, status=status)


class Transport:
    """The connection pool of one process. A forked child creates its own, so processes never share a connection."""

    def __init__(self, settings: GitHubSettings) -> None:
        self._settings = settings
        self._origins = {origin(settings.api_url), origin(settings.graphql_url)}
        self._process = os.getpid()
        self._session = _session(settings)

    @contextmanager
    def deadline(self, *, shared: bool = False) -> Iterator[Deadline]:
        """Set the deadline of one call for the context, or one that several calls share.

        Inside the deadline of a call that one applies; inside a shared one, a call ends no later than it.
        """
        running = CALL_DEADLINE.get(None)
        if running is not None and (shared or not running.shared):
            yield running
            return
        seconds = self._settings.shared_deadline_seconds if shared else self._settings.deadline_seconds
        deadline = Deadline(seconds, shared=shared)
        if running is not None:
            deadline.ends = min(deadline.ends, running.ends)
        token = CALL_DEADLINE.set(deadline)
        try:
            yield deadline
        finally:
            CALL_DEADLINE.reset(token)

    def send(self, request: Request, bearer: AuthBase) -> Response:
        """Return the response, whatever its status. Raise `GitHubError` if there is none.

        A safe request on a broken pooled connection is sent once more.
        """
        with self.deadline() as call:
            for last in (not request.safe, True):
                call.sent = False
                try:
                    return self._follow(request, bearer)
                except _TRANSPORT_ERRORS as error:
                    kind = type(error).__name__
                if last or call.expired:
                    break
            raise _connection_error(
                request, call, kind
            )  # not inside `except`: errors of `requests` carry the request with its token

    def _follow(self, request: Request, bearer: AuthBase) -> Response:
        url = request.url
        followed = _REDIRECTS_OF_GET if request.method == "GET" else _REDIRECTS_OF_WRITES
        for _ in range(_MAX_REDIRECTS):
            response = self._exchange(request, url, bearer)
            target = response.headers.get("location")
            if response.status not in followed or not target:
                return response
            url = self._next(url, target)
        raise unavailable("redirects too often", maybe_applied=False)

    def _next(self, url: str, target: str) -> str:
        try:
            joined = urljoin(url, target)
        except ValueError:
            raise unavailable("redirects to an invalid URL", maybe_applied=False) from None
        self.check_origin(joined)
        return joined

    def check_origin(self, url: str) -> None:
        """Raise `GitHubError` if a URL is of another host: the token is only sent to configured hosts."""
        try:
            known = origin(url) in self._origins
        except ValueError:
            known = False
        if not known:
            raise unavailable("refers to another host", maybe_applied=False)

    def _exchange(self, request: Request, url: str, bearer: AuthBase) -> Response:
        with call_span("GitHub", request.method, urlsplit(url).hostname or "") as span:
            response = self._open_session().request(
                request.method,
                url,
                data=None if request.body is None else orjson.dumps(request.body),
                headers=_headers(request),
                auth=bearer,
                timeout=CALL_DEADLINE.get().remaining(),
                stream=True,
                allow_redirects=False,
            )
            try:
                body = _read(response, safe=request.safe)
            finally:
                response.close()
            span.add({"http.response.status_code": response.status_code})
        return Response(response.status_code, response.headers, _parse(body))

    def _open_session(self) -> requests.Session:
        if self._process != os.getpid():
            self._session = _session(self._settings)
            self._process = os.getpid()
        return self._session


def _headers(request: Request) -> dict[str, str]:
    headers = {} if request.body is None else {"Content-Type": "application/json"}
    return headers if request.accept is None else {**headers, "Accept": request.accept}


class _Session(requests.Session):
    """A session without redirects: `requests` would read their whole body even with `allow_redirects=False`."""

    def get_redirect_target(self, _response: requests.Response) -> None:
        """Return None."""


def _session(settings: GitHubSettings) -> requests.Session:
    session = _Session()
    session.trust_env = False  # read once below instead of for every request
    session.proxies = get_environ_proxies(settings.api_url)
    session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers.update(
        {
            "Accept": "application/vnd.github+json",
            "User-Agent": settings.app_slug or "change-freeze-service",
            "X-GitHub-Api-Version": settings.api_version,
        }
    )
    adapter = DeadlineAdapter(pool_connections=4, pool_maxsize=_POOL_SIZE)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _read(response: requests.Response, *, safe: bool) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in response.raw.stream(65536, decode_content=True):
        size += len(part)
        if size > _MAX_RESPONSE_BYTES:
            raise unavailable("sent a response that is too large", maybe_applied=not safe, status=response.status_code)
        parts.append(part)
    return b"".join(parts)


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return None


def _connection_error(request: Request, call: Deadline, kind: str) -> GitHubError:
    """Return the error with the kind of failure, without its text, which may quote the request."""
    timed_out = call.expired or "Timeout" in kind
    reason = "did not respond in time" if timed_out else f"could not be reached, or closed the connection ({kind})"
    return unavailable(reason, maybe_applied=call.sent and not request.safe)
