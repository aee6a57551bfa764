"""Posting over a kept connection, with as little work as possible: many webhooks a second come from one process."""

import contextlib
import http.client
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PATIENCE = 10  # seconds, as GitHub waits


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of a post: status and reason as deliveries show them, headers and the beginning of the body."""

    status_code: int
    status: str
    seconds: float
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


class Poster:
    """Posts to one address after another; belongs to one thread."""

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
            self._connection, self._origin = kind(parts.netloc, timeout=PATIENCE), origin
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request("POST", path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode("utf-8", "replace")[:2000]
        return answer.status, answer.reason, dict(answer.getheaders()), text

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
