"""The operator's switch: while a file exists, requests are answered with 503 `maintenance`."""

import time
from pathlib import Path

from rules.errors import ServiceError

_RETRY_SECONDS = 60


class Maintenance:
    """Tells whether a maintenance window is on; looks at the file at most once in `look_every` seconds."""

    def __init__(self, file: Path | None, status_url: str, *, look_every: float = 1.0) -> None:
        self._file = file
        self._look_every = look_every
        self._status_url = status_url
        self._on = False
        self._looked_at = 0.0

    def refuse(self) -> None:
        """Raise `maintenance` while the window is on."""
        if self._file is None:
            return
        now = time.monotonic()
        if now - self._looked_at >= self._look_every:
            self._on, self._looked_at = self._file.exists(), now
        if self._on:
            message = f"A maintenance window; see {self._status_url}. Freezes stay in force."
            raise ServiceError("maintenance", message, retry_after=_RETRY_SECONDS)
