"""Access log: one line and one metric sample per request.

The line is written without the logging package, which would cost more than the rest of the edge. It holds the path
but never the query, which may carry a token. JSON escapes whatever a client puts into the path.
"""

import sys
from datetime import UTC, datetime
from typing import BinaryIO

import orjson
from prometheus_client import Counter, Histogram

from app.edge.request_context import RequestContext
from app.logs import redact
from app.metrics.families import HTTP_DURATION, HTTP_REQUESTS

REQUESTS = HTTP_REQUESTS.counter()
SECONDS = HTTP_DURATION.histogram((0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5))
_MAX_PATH_LENGTH = 1000


class AccessLog:
    """Writes the log line of a request and updates its metrics."""

    def __init__(self, stream: BinaryIO | None) -> None:
        self._stream = stream
        self._counters: dict[tuple[str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def write(self, request: RequestContext, status: int, code: str | None, seconds: float) -> None:
        """Log and count one finished request."""
        operation = request.operation_id or "none"
        self._count(operation, status, seconds)
        if self._stream is None:
            return
        line = {
            "timestamp": datetime.now(UTC),
            "level": "info",
            "event": "request",
            "request_id": request.request_id,
            "trace_id": request.trace.trace_id,
            "method": request.scope["method"],
            "path": redact(request.scope["path"][:_MAX_PATH_LENGTH]),
            "operation": operation,
            "status": status,
            "code": code,
            "milliseconds": round(seconds * 1000, 2),
            "organization": request.principal.organization_id if request.principal else None,
            "principal": request.principal.id if request.principal else None,
        }
        self._stream.write(orjson.dumps(line, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE))
        self._stream.flush()

    def _count(self, operation: str, status: int, seconds: float) -> None:
        counter = self._counters.get((operation, status))
        if counter is None:
            counter = self._counters[operation, status] = REQUESTS.labels(operation, str(status))
            self._histograms[operation] = SECONDS.labels(operation)
        counter.inc()
        self._histograms[operation].observe(seconds)


def standard_error() -> BinaryIO:
    """Return the binary stream of the access log."""
    return sys.stderr.buffer
