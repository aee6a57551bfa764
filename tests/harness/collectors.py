"""Small servers that keep what is sent to them: a collector of traces (OTLP over HTTP), and Sentry."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.harness.servers import in_thread


class Received(NamedTuple):
    """A request, its body uncompressed."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class SentSpan(NamedTuple):
    """A span that was sent."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    attributes: dict[str, str | int]
    service: str


class Collector:
    """What one server has received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Received] = []

    @property
    def content(self) -> bytes:
        """All bodies."""
        return b"\n".join(request.body for request in self.requests)

    def spans(self) -> list[SentSpan]:
        """Return the spans, of requests to `/v1/traces`."""
        found = []
        for request in self.requests:
            assert request.path == "/v1/traces"
            for group in ExportTraceServiceRequest.FromString(request.body).resource_spans:
                [service] = [
                    each.value.string_value for each in group.resource.attributes if each.key == "service.name"
                ]
                found += [_span(span, service) for scope in group.scope_spans for span in scope.spans]
        return found

    def events(self) -> list[dict[str, Any]]:
        """Return the events, of envelopes of Sentry."""
        return [json.loads(request.body.splitlines()[2]) for request in self.requests]


def _span(span: Any, service: str) -> SentSpan:
    attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
    return SentSpan(span.name, span.kind, *ids, span.status.code == 2, attributes, service)


@contextmanager
def collector(answer: str = "{}", status: int = 200) -> Iterator[Collector]:
    """Receive requests of any method while the block runs, and give each the same answer of JSON."""
    received = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.requests.append(Received(self.command, self.path, headers, body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_GET = do_POST = _take  # noqa: N815 - the names of the standard library

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with in_thread(server) as port:
        received.url = f"http://127.0.0.1:{port}"
        yield received
