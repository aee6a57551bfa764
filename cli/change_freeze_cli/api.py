"""Requests to the API: one at a time, repeated where that is harmless, never redirected."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click

from change_freeze_cli import __version__
from change_freeze_cli.errors import RefusedError, UnclearError
from change_freeze_cli.text import plain

REQUEST_TIMEOUT = 30.0
MAX_TRIES = 4
MAX_PAUSE = 60.0
"""Seconds; a command whose next try would be later gives up."""
MAX_ANSWER_BYTES = 20_000_000

_REPEATED = frozenset({429, 502, 503})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SECRET = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        """The object of the body; None if it is not JSON, or names a property twice."""
        try:
            return json.loads(self.body, object_pairs_hook=_unambiguous)
        except ValueError:
            return None


@dataclass(slots=True)
class Api:
    """The API at one address, with a bearer token or without."""

    url: str
    token: str | None = field(default=None, repr=False)
    sleep: Callable[[float], None] = time.sleep

    def get(self, path: str, **query: Any) -> Answer:
        """Return the successful answer to a GET; parameters that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._successful(self.send("GET", f"{path}?{urlencode(given)}" if given else path))

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the successful answer to a POST of JSON; it is done once, however often it is repeated."""
        return self._write("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the successful answer to a PATCH of JSON; it is done once, however often it is repeated."""
        return self._write("PATCH", path, body)

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        from uuid import uuid4

        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
        return self._successful(self.send(method, path, data, headers))

    def post_form(self, path: str, **form: str) -> Answer:
        """Return the answer to a POST of a form, also if it is an error."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, urlencode(form).encode(), headers)

    def send(
        self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the answer of the last try. Raise UnclearError if there is none."""
        failure = ""
        for attempt in range(1, MAX_TRIES + 1):
            answer, failure = self._try(method, path, data, headers or {})
            if answer is not None and answer.status not in _REPEATED:
                return answer
            pause = _pause(answer, attempt)
            if attempt == MAX_TRIES or pause > MAX_PAUSE:
                break
            self.sleep(pause)
        if answer is not None:
            return answer
        raise UnclearError(f"The service at {self.url} cannot be reached: {failure}")

    def _try(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> tuple[Answer | None, str]:
        """Return the answer, or why there is none."""
        import ssl
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """A redirect would take the credential to another address."""

            def redirect_request(self, *_: Any) -> None:
                """Follow none."""

        given = {"Accept": "application/json", "User-Agent": f"freeze/{__version__}", **headers}
        if self.token is not None:
            given["Authorization"] = f"Bearer {self.token}"
        request = Request(self.url + path, data, given, method=method)  # noqa: S310  http(s), as checked_url sees to
        try:
            with build_opener(NoRedirects()).open(request, timeout=REQUEST_TIMEOUT) as response:
                return _answer_of(response), ""
        except HTTPError as error:
            with error:
                return _answer_of(error), ""
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise UnclearError(f"The certificate of {self.url} cannot be trusted: {error.reason}") from None
            return None, str(error.reason)
        except (OSError, HTTPException) as error:
            return None, type(error).__name__

    def _successful(self, answer: Answer) -> Answer:
        """Return a successful answer. Raise RefusedError or UnclearError if it is another."""
        if 200 <= answer.status < 300:
            if not isinstance(answer.json, dict):
                raise UnclearError(f"The answer of {self.url} is not that of a Change-Freeze Service.")
            return answer
        body = answer.json
        error = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict):
            raise UnclearError(f"{self.url} answers with {answer.status}, and not as a Change-Freeze Service does.")
        message = _message(error)
        if answer.status >= 500 or answer.status == 429:
            raise UnclearError(message)
        raise RefusedError(message, code=str(error.get("code")), body=answer.body)


def checked_url(value: str) -> str:
    """Return the address of a service without a final slash. Raise UsageError if no credential may be sent there."""
    try:
        parts = urlsplit(value.strip())
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"} or parts.query or parts.fragment or "@" in parts.netloc:
        raise click.UsageError("The address must be like https://freeze.example.com.")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise click.UsageError("The address must begin with https://: credentials are sent there.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def checked_secret(value: str, name: str) -> str:
    """Return a secret without surrounding spaces. Raise UsageError, without the secret, if it cannot be one."""
    if not _SECRET.fullmatch(value.strip()):
        raise click.UsageError(f"{name} is not a credential: it may have no spaces, and only ASCII characters.")
    return value.strip()


def segment(value: str) -> str:
    """Return an id as a part of a path."""
    return quote(value, safe="")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a property is there twice")
    return found


def _answer_of(response: Any) -> Answer:
    body = response.read(MAX_ANSWER_BYTES + 1)
    if len(body) > MAX_ANSWER_BYTES:
        raise UnclearError("The answer is too long.")
    if response.length:
        raise UnclearError("The answer broke off.")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, headers, body.decode(errors="replace"))


def _pause(answer: Answer | None, attempt: int) -> float:
    """Return the seconds until the next try: as `Retry-After` says, in seconds or as a date; without it 1, 2, 4."""
    value = answer.headers.get("retry-after", "") if answer else ""
    if value.isdecimal():
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 2.0 ** (attempt - 1)
    if at.tzinfo is None:  # a date that ends with -0000
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _message(error: Mapping[str, Any]) -> str:
    """Return the lines that explain an error; its code and type are shown as they are, also if they are new."""
    details = error.get("details")
    rows = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    first = f"{plain(error.get('message'))} ({error.get('type')}: {error.get('code')}, {error.get('requestId')})"
    return "\n".join([first, *(f"  {plain(one.get('path'))}: {plain(one.get('message'))}" for one in rows)])
