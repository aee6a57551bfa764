"""Reading a calendar file, in a process of its own that may take neither long nor much."""

import logging
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import orjson

from integrations.calendars.found import CalendarError, Options, Reading, reading_from
from integrations.calendars.gate import admit
from rules.errors import ServiceError

logger = logging.getLogger(__name__)

AT_A_TIME = 2
SECONDS = 20
"""Until a reader is stopped whatever it does; its computing is limited to less (`reader`)."""
_ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-W", "ignore", "-m", "integrations.calendars.reader")
_places = BoundedSemaphore(AT_A_TIME)


def read(text: str, options: Options) -> Reading:
    """Return what a calendar holds.

    Raises CalendarError for what is no calendar, or takes too long; `rate_limited` while others are being read.
    """
    admitted = admit(text)
    if not _places.acquire(timeout=1):
        raise ServiceError("rate_limited", "Other calendars are being read at this moment. Try again.", retry_after=5)
    try:
        answered = _ask({**asdict(options), "text": admitted})
    finally:
        _places.release()
    if "refused" in answered:
        raise CalendarError(answered["refused"])
    return reading_from(answered)


def _ask(question: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            _COMMAND,
            input=orjson.dumps(question),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={"PATH": os.defpath, "TZ": "UTC"},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CalendarError("takes too long to read") from None
    if done.returncode:
        logger.warning("the reader of a calendar was stopped by signal %d", -done.returncode)
        raise CalendarError("takes too much time or memory to read")
    return orjson.loads(done.stdout)  # type: ignore[no-any-return]
