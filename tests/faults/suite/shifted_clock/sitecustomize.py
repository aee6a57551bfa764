"""Shifts the clock of any Python process that has this directory on its PYTHONPATH, by CLOCK_SHIFT seconds.

Python imports a module of this name before anything else, so that code that keeps a reference to `time.time` keeps the
shifted one. Monotonic time is unchanged, as when a machine's clock is set.
"""

import datetime as dt
import os
import time
from typing import Any

SHIFT = float(os.environ.get("CLOCK_SHIFT", "0"))
_time, _time_ns, _real = time.time, time.time_ns, dt.datetime


def _shifted() -> float:
    return _time() + SHIFT


def _shifted_ns() -> int:
    return _time_ns() + int(SHIFT * 1e9)


class _Kind(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _real)


class _Shifted(dt.datetime, metaclass=_Kind):
    """Makes ordinary times, now ones that are wrong."""

    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> Any:
        return _real(*values, **named)

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _real.fromtimestamp(_shifted(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return _real.fromtimestamp(_shifted(), dt.UTC).replace(tzinfo=None)


time.time, time.time_ns = _shifted, _shifted_ns
dt.datetime = _Shifted  # type: ignore[misc]
