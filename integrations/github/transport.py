"""One HTTP exchange with GitHub: pooled, bounded in time and size, never led to another host."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin

import orjson
import requests
from requests.auth import AuthBase
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.settings import GitHubSettings, origin
from integrations.github.sockets import STOPWATCH, DeadlineAdapter, Stopwatch

_SIZE_LIMIT = 20 * 1024 * 1024
_REDIRECTS = 3
_FAULTS = (requests.RequestException, HTTPError, OSError)
_POOL = 32
_FOLLOWED = {301, 302, 307, 308}
_FOLLOWED_BY_WRITES = {307, 308}


class Bearer(AuthBase):
    """A token that shows nothing of itself, not even where a traceback prints variables.

    Given to `requests` as `auth`, so that no `.netrc` entry replaces it.
    """

    __slots__ = ("_token",)

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token on a request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `safe` says that sending it twice changes nothing more than sending it once."""

    method: str
    url: str
    body: Any = None
    safe: bool = False
    accept: str | None = None
    """The `Accept` header, where it is not that of the API."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer; `payload` is the JSON, or None where there was none that could be read."""

    status: int
    headers: Mapping[str, str]
    payload: Any

    @property
    def message(self) -> str:
        """GitHub's own words, cut short, or nothing."""
        found = self.payload.get("message") if isinstance(self.payload, dict) else None
        return found[:300] if isinstance(found, str) else ""


def unavailable(reason: str, *, maybe_applied: bool, status: int | None = None) -> GitHubError:
    """Make the error for a GitHub that did not answer, or not in a way that can be read."""
    return GitHubError(ErrorKind.UNAVAILABLE, f"GitHub {reason}", maybe_applied=maybe_applied, status=status)


class Transport:
    """The pool of one process. A forked child makes its own: two processes never share a connection."""

    def __init__(self, settings: GitHubSettings) -> None:
        self._settings = settings
        self._origins = {origin(settings.api_url), origin(settings.graphql_url)}
        self._process = os.getpid()
        self._session = _session(settings)

    @contextmanager
    def deadline(self) -> Iterator[Stopwatch]:
        """Give everything inside one common deadline; inside another deadline, that one keeps counting."""
        running = STOPWATCH.get(None)
        if running is not None:
            yield running
            return
        mark = STOPWATCH.set(Stopwatch(self._settings.deadline_seconds))
        try:
            yield STOPWATCH.get()
        finally:
            STOPWATCH.reset(mark)

    def send(self, request: Request, bearer: AuthBase) -> Answer:
        """Return the answer, whatever its status; raises `GitHubError` when there is none.

        A safe request whose pooled connection turns out to be dead is sent once more.
        """
        with self.deadline() as call:
            for last in (not request.safe, True):
                call.sent = False
                try:
                    return self._follow(request, bearer)
                except _FAULTS as fault:
                    kind = type(fault).__name__
                if last or call.over:
                    break
            raise _lost(request, call, kind)  # not inside `except`: a fault of `requests` carries what was sent

    def _follow(self, request: Request, bearer: AuthBase) -> Answer:
        url = request.url
        followed = _FOLLOWED if request.method == "GET" else _FOLLOWED_BY_WRITES
        for _ in range(_REDIRECTS):
            answer = self._exchange(request, url, bearer)
            target = answer.headers.get("location")
            if answer.status not in followed or not target:
                return answer
            url = self._next(url, target)
        raise unavailable("redirects in circles", maybe_applied=False)

    def _next(self, url: str, target: str) -> str:
        try:
            joined = urljoin(url, target)
        except ValueError:
            raise unavailable("points to no address", maybe_applied=False) from None
        self.check_origin(joined)
        return joined

    def check_origin(self, url: str) -> None:
        """Refuse an address of another host: the token goes only where it was configured to go."""
        try:
            known = origin(url) in self._origins
        except ValueError:
            known = False
        if not known:
            raise unavailable("points to another host", maybe_applied=False)

    def _exchange(self, request: Request, url: str, bearer: AuthBase) -> Answer:
        response = self._open_session().request(
            request.method,
            url,
            data=None if request.body is None else orjson.dumps(request.body),
            headers=_headers(request),
            auth=bearer,
            timeout=STOPWATCH.get().left(),
            stream=True,
            allow_redirects=False,
        )
        try:
            body = _read(response, safe=request.safe)
        finally:
            response.close()
        return Answer(response.status_code, response.headers, _parse(body))

    def _open_session(self) -> requests.Session:
        if self._process != os.getpid():
            self._session = _session(self._settings)
            self._process = os.getpid()
        return self._session


def _headers(request: Request) -> dict[str, str]:
    headers = {} if request.body is None else {"Content-Type": "application/json"}
    return headers if request.accept is None else {**headers, "Accept": request.accept}


class _Session(requests.Session):
    """A session that sees no redirects: `requests` would read their whole body even when told not to follow."""

    def get_redirect_target(self, _response: requests.Response) -> None:
        """Find no redirect."""


def _session(settings: GitHubSettings) -> requests.Session:
    session = _Session()
    session.trust_env = False  # read once below instead of at every call
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
    adapter = DeadlineAdapter(pool_connections=4, pool_maxsize=_POOL)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _read(response: requests.Response, *, safe: bool) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in response.raw.stream(65536, decode_content=True):
        size += len(part)
        if size > _SIZE_LIMIT:
            raise unavailable("sent too large an answer", maybe_applied=not safe, status=response.status_code)
        parts.append(part)
    return b"".join(parts)


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return None


def _lost(request: Request, call: Stopwatch, kind: str) -> GitHubError:
    """Tell the kind of fault without its text, which may quote what was sent."""
    timed_out = call.over or "Timeout" in kind
    reason = "did not answer in time" if timed_out else f"could not be reached, or broke off ({kind})"
    return unavailable(reason, maybe_applied=call.sent and not request.safe)
