"""Spans for OpenTelemetry, sent as OTLP over HTTP; the SDK reads the standard `OTEL_…` variables itself."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Thread

from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    format_span_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as RawSpan

from integrations.spans import Attributes, Kind, Span, set_tracer
from integrations.traces import CURRENT, Trace, new_trace
from rules.version import VERSION

FLUSH_TIMEOUT = 2.0
"""Seconds that the end of a process waits for a collector."""
_KINDS = {"server": SpanKind.SERVER, "consumer": SpanKind.CONSUMER, "client": SpanKind.CLIENT}


class _TraceIds(RandomIdGenerator):
    """Gives a trace that begins here the id that its log lines have."""

    def generate_trace_id(self) -> int:
        """Return the id of the current trace."""
        trace = CURRENT.get()
        return super().generate_trace_id() if trace is None else int(trace.trace_id, 16)


class _Span:
    """A span of the SDK."""

    def __init__(self, raw: RawSpan) -> None:
        self._raw = raw

    def rename(self, name: str) -> None:
        """Give it the name that is known by now."""
        self._raw.update_name(name)

    def add(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._raw.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        """Mark it as failed."""
        self._raw.set_attribute("error.type", reason)
        self._raw.set_status(Status(StatusCode.ERROR))


class OpenTelemetryTracer:
    """Reports spans to a provider of the SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("change-freeze", VERSION)

    @contextmanager
    def root(self, name: str, kind: Kind, attributes: Attributes) -> Iterator[Span]:
        """Begin a root span of the current trace, which from then on names it as its parent."""
        trace = CURRENT.get() or new_trace()
        outer = CURRENT.set(trace)
        raw = self._tracer.start_span(name, _context_of(trace), _KINDS[kind], attributes)
        own = raw.get_span_context()
        flags = f"{own.trace_flags & TraceFlags.SAMPLED:02x}"
        CURRENT.set(trace._replace(parent_id=format_span_id(own.span_id), flags=flags, begins_here=False))
        try:
            with self._running(raw) as span:
                yield span
        finally:
            CURRENT.reset(outer)

    def child(self, name: str, attributes: Attributes) -> AbstractContextManager[Span] | None:
        """Begin a span within the running one; return None if none runs that is sampled."""
        if not get_current_span().is_recording():
            return None
        return self._running(self._tracer.start_span(name, None, SpanKind.CLIENT, attributes))

    @staticmethod
    @contextmanager
    def _running(raw: RawSpan) -> Iterator[Span]:
        """Make a span the current one, and end it. The text of an exception may quote anything: its type is enough."""
        token = attach(set_span_in_context(raw))
        span = _Span(raw)
        try:
            yield span
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            detach(token)
            raw.end()


def _context_of(trace: Trace) -> Context:
    """Return the context of a root span: its parent is where the trace comes from."""
    if trace.begins_here:
        return Context()
    flags = TraceFlags(int(trace.flags, 16))
    parent = SpanContext(int(trace.trace_id, 16), int(trace.parent_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def collector_answers(collector: str) -> bool:
    """True if a collector accepts spans, by sending none."""
    return OTLPSpanExporter(collector, timeout=FLUSH_TIMEOUT).export([]) is SpanExportResult.SUCCESS


@contextmanager
def reported_traces(collector: str, process: str) -> Iterator[None]:
    """Report the spans of this process to the address of a collector while the block runs."""
    name = os.environ.get(OTEL_SERVICE_NAME) or f"change-freeze-{process}"
    resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: VERSION})
    provider = TracerProvider(resource=resource, id_generator=_TraceIds(), shutdown_on_exit=False)
    processor = BatchSpanProcessor(OTLPSpanExporter(collector))
    provider.add_span_processor(processor)
    set_tracer(OpenTelemetryTracer(provider))
    try:
        yield
    finally:
        set_tracer(None)
        flushing = Thread(target=processor.shutdown, name="traces", daemon=True)
        flushing.start()
        flushing.join(FLUSH_TIMEOUT)
