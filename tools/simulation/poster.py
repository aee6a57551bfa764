"""Sending POST requests over a kept connection, with little CPU: one process sends many webhooks a second."""

import contextlib
import http.client
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

RESPONSE_TIMEOUT = 10.0
"""Seconds, as GitHub waits."""
MAX_BODY = 2000
"""Characters of a response that are kept."""


@dataclass(frozen=True, slots=True)
class Posted:
    """The response to a post as deliveries show it; 504 and 502 if there was none."""

    status_code: int
    status: str
    seconds: float
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


class Poster:
    """Sends posts one after the other; belongs to one thread."""

    def __init__(self) -> None:
        self._origin = ""
        self._connection: http.client.HTTPConnection | None = None

    def post(self, url: str, body: bytes, headers: dict[str, str]) -> Posted:
        """Post once; a kept connection that the receiver has closed meanwhile is replaced by a new one."""
        began = time.monotonic()
        kept = self._connection is not None
        try:
            try:
                status, reason, answered, text = self._exchange(url, body, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if not kept:
                    raise
                self.close()
                status, reason, answered, text = self._exchange(url, body, headers)
        except TimeoutError:
            self.close()
            return Posted(504, "timed out", time.monotonic() - began)
        except (OSError, http.client.HTTPException):
            self.close()
            return Posted(502, "failed to connect to host", time.monotonic() - began)
        shown = "OK" if status < 400 else reason or "Invalid HTTP Response"
        return Posted(status, shown, time.monotonic() - began, answered, text)

    def _exchange(self, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, dict[str, str], str]:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if self._connection is None or origin != self._origin:
            self.close()
            secure = parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection, self._origin = kind(parts.netloc, timeout=RESPONSE_TIMEOUT), origin
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request("POST", path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode("utf-8", "replace")[:MAX_BODY]
        return answer.status, answer.reason, dict(answer.getheaders()), text

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
