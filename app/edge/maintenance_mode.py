"""Maintenance mode: while a file exists, requests get 503 `maintenance`."""

import time
from datetime import UTC, datetime
from pathlib import Path

from rules.errors import ServiceError

_RETRY_SECONDS = 60
_MAX_NOTE_LENGTH = 500


class Maintenance:
    """Checks the maintenance file, at most once per `check_interval` seconds."""

    def __init__(self, file: Path | None, status_url: str, *, check_interval: float = 1.0) -> None:
        self._file = file
        self._check_interval = check_interval
        self._status_url = status_url
        self._on = False
        self._checked_at = 0.0

    def check(self) -> None:
        """Raise `maintenance` while maintenance mode is on."""
        if self._file is None:
            return
        now = time.monotonic()
        if now - self._checked_at >= self._check_interval:
            self._on, self._checked_at = self._file.exists(), now
        if self._on:
            message = f"The service is under maintenance; see {self._status_url}. Freezes stay in force."
            raise ServiceError("maintenance", message, retry_after=_RETRY_SECONDS)

    def find_window(self) -> tuple[datetime, str] | None:
        """Return since when maintenance mode is on, and the first line of the file; None while it is off."""
        if self._file is None:
            return None
        try:
            since = datetime.fromtimestamp(self._file.stat().st_mtime, UTC)
            text = self._file.read_text(errors="replace")
        except OSError:
            return None
        return since, next(iter(text.splitlines()), "").strip()[:_MAX_NOTE_LENGTH]
