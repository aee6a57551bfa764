"""The trace and the request that the running code is a part of (W3C Trace Context).

They are in every log line, and go from a request to the jobs that it wakes. They are sent to no other server.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ZEROS = re.compile("0+")
_MAX_TRACEPARENT_LENGTH = 200
_REQUEST_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{7,127}")


class Trace(NamedTuple):
    """A trace, the operation in it that has caused the running code, and the id of the request."""

    trace_id: str
    parent_id: str
    flags: str
    request_id: str | None = None
    begins_here: bool = False
    """True if no other process and no span is its parent."""

    @property
    def traceparent(self) -> str:
        """The value of the header that passes the trace on."""
        return f"00-{self.trace_id}-{self.parent_id}-{self.flags}"


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


def new_trace(request_id: str | None = None) -> Trace:
    """Return a trace that begins here."""
    random = os.urandom(24).hex()
    return Trace(random[:32], random[32:], "00", request_id, begins_here=True)


def read_traceparent(value: str, request_id: str | None) -> Trace:
    """Return the trace that a `traceparent` header names; one that is malformed begins a new trace."""
    match = _TRACEPARENT.fullmatch(value) if len(value) <= _MAX_TRACEPARENT_LENGTH else None
    if match is None:
        return new_trace(request_id)
    version, trace_id, parent_id, flags, rest = match.groups()
    later_version = version not in {"00", "ff"}
    if (rest and not later_version) or version == "ff" or _ZEROS.fullmatch(trace_id) or _ZEROS.fullmatch(parent_id):
        return new_trace(request_id)
    return Trace(trace_id, parent_id, f"{int(flags, 16) & 1:02x}", request_id)


def accept_request_id(value: str, redact: Callable[[str], str]) -> str | None:
    """Return the request id that a client sends; None if it is none, or contains what `redact` removes."""
    return value if _REQUEST_ID.fullmatch(value) and redact(value) == value else None


def job_metadata() -> dict[str, str]:
    """Return the metadata with which a job continues the trace of the running code (`continued`)."""
    trace = CURRENT.get()
    if trace is None:
        return {}
    return {"traceparent": trace.traceparent, **({"request_id": trace.request_id} if trace.request_id else {})}


@contextmanager
def continued(given: Mapping[str, Any]) -> Iterator[Trace]:
    """Continue the trace that a job was given, or begin one."""
    traceparent, request_id = given.get("traceparent"), given.get("request_id")
    trace = read_traceparent(str(traceparent or ""), str(request_id) if request_id else None)
    token = CURRENT.set(trace)
    try:
        yield trace
    finally:
        CURRENT.reset(token)
