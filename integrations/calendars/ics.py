"""Parses a calendar file in a separate process with limited time and memory."""

import logging
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import orjson

from integrations.calendars.content import CalendarError, Options, ParsedCalendar, calendar_from_json
from integrations.calendars.prevalidation import prevalidate
from rules.errors import ServiceError

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 2
TIMEOUT_SECONDS = 20
"""Wall-clock limit of a reader; its CPU time is limited to less (`reader`)."""
_ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-W", "ignore", "-m", "integrations.calendars.reader")
_slots = BoundedSemaphore(MAX_CONCURRENT)


def read(text: str, options: Options) -> ParsedCalendar:
    """Return the content of a calendar.

    Raise CalendarError if it is invalid or takes too long, `rate_limited` while too many others are being parsed.
    """
    valid_text = prevalidate(text)
    if not _slots.acquire(timeout=1):
        raise ServiceError("rate_limited", "Other calendars are being imported. Try again.", retry_after=5)
    try:
        result = _run_reader({**asdict(options), "text": valid_text})
    finally:
        _slots.release()
    if "refused" in result:
        raise CalendarError(result["refused"])
    return calendar_from_json(result)


def _run_reader(request: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            _COMMAND,
            input=orjson.dumps(request),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={"PATH": os.defpath, "TZ": "UTC"},
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CalendarError("takes too long to parse") from None
    if done.returncode:
        by = f"by signal {-done.returncode}" if done.returncode < 0 else f"with status {done.returncode}"
        logger.warning("the calendar reader ended %s", by)
        raise CalendarError("takes too much time or memory to parse")
    return orjson.loads(done.stdout)  # type: ignore[no-any-return]
