"""Spans: what takes time within a trace, reported where traces are collected, and nothing at all elsewhere.

A root span is one request or job. Statements and calls to other servers are children of the span that runs, and are not
reported without one. No span holds a parameter, a body, a credential or a query.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol, Self

from integrations.traces import CURRENT

Kind = Literal["server", "consumer", "client"]
Attributes = Mapping[str, str | int]
REQUEST_ID = "change_freeze.request_id"
"""The attribute with the id of a request."""


class Span(Protocol):
    """A span that runs; it fails with an exception that leaves its context."""

    def rename(self, name: str) -> None:
        """Give it the name that is known by now."""

    def add(self, attributes: Attributes) -> None:
        """Add attributes."""

    def fail(self, reason: str) -> None:
        """Mark it as failed."""


class Tracer(Protocol):
    """Reports spans."""

    def root(self, name: str, kind: Kind, attributes: Attributes) -> AbstractContextManager[Span]:
        """Begin a root span of the current trace, which from then on names it as its parent."""

    def child(self, name: str, attributes: Attributes) -> AbstractContextManager[Span] | None:
        """Begin a span within the running one; return None if none runs that is sampled."""


class _NoSpan:
    """Reports nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def rename(self, name: str) -> None:
        """Do nothing."""

    def add(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, reason: str) -> None:
        """Do nothing."""


_NO_SPAN = _NoSpan()
_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Report the spans of this process to a tracer, or to none."""
    global _tracer  # noqa: PLW0603 - one for the process
    _tracer = tracer


def has_tracer() -> bool:
    """True if the spans of this process are reported."""
    return _tracer is not None


def root_span(name: str, kind: Kind, attributes: Attributes | None = None) -> AbstractContextManager[Span]:
    """Begin the span of a request or job."""
    return _NO_SPAN if _tracer is None else _tracer.root(name, kind, attributes or {})


def child_span(name: str, attributes: Attributes | None = None) -> AbstractContextManager[Span]:
    """Begin the span of a statement or of a call to another server."""
    if _tracer is None:
        return _NO_SPAN
    return _tracer.child(name, attributes or {}) or _NO_SPAN


def call_span(server: str, method: str, host: str) -> AbstractContextManager[Span]:
    """Begin the span of a request over HTTP to another server, with its host and no address: those may be secrets.

    It has the id of the request that has caused it, if one has.
    """
    if _tracer is None:
        return _NO_SPAN
    trace = CURRENT.get()
    caused = {REQUEST_ID: trace.request_id} if trace is not None and trace.request_id else {}
    return child_span(f"{server} {method}", {"http.request.method": method, "server.address": host, **caused})
