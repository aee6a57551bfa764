"""One line for each request, and its numbers for `/metrics`.

The line is written without the logging package, which would cost more than the rest of the edge. It holds the path
but never the query, which may carry a token; JSON escapes whatever a client puts into the path.
"""

import sys
import time
from datetime import UTC, datetime
from typing import BinaryIO

import orjson
from prometheus_client import Counter, Histogram

from app.edge.exchange import RequestContext
from app.logs import redact

REQUESTS = Counter("http_requests", "Requests answered", ["operation", "status"])
SECONDS = Histogram(
    "http_request_seconds", "Time to answer", ["operation"], buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
)


class AccessLog:
    """Writes and counts."""

    def __init__(self, stream: BinaryIO | None) -> None:
        self._stream = stream
        self._counters: dict[tuple[str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def request(self, exchange: RequestContext, status: int, code: str | None, seconds: float) -> None:
        """Tell of one answered request."""
        operation = exchange.operation_id or "none"
        self._count(operation, status, seconds)
        if self._stream is None:
            return
        line = {
            "timestamp": datetime.fromtimestamp(time.time(), UTC),
            "level": "info",
            "event": "request",
            "request_id": exchange.request_id,
            "method": exchange.scope["method"],
            "path": redact(exchange.scope["path"]),
            "operation": operation,
            "status": status,
            "code": code,
            "milliseconds": round(seconds * 1000, 2),
            "organization": exchange.principal.organization_id if exchange.principal else None,
            "principal": exchange.principal.id if exchange.principal else None,
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
    """Return the stream of the log."""
    return sys.stderr.buffer
