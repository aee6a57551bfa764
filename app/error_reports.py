"""Reports of errors to Sentry: where an exception was raised and in which request, and nothing that people entered.

An event is made of parts that are named here: no message of an exception, no argument, variable, header, body or person
is among them. The log line with the same request id has the message.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from sentry_sdk import Client
from sentry_sdk.utils import Dsn, event_from_exception

from integrations.traces import CURRENT
from rules.version import VERSION

FLUSH_TIMEOUT = 2.0
"""Seconds that the end of a process waits for Sentry."""
_OUR_PACKAGES = {"app", "handlers", "integrations", "jobs", "mcp_server", "services", "slack_app", "web"}
"""Packages whose log texts are constant: their values are arguments."""
_REPORTERS = ("sentry_sdk", "urllib3", "opentelemetry")
"""Loggers of the libraries that send reports: a report of their errors would cause the next one."""
_FRAME = ("filename", "module", "function", "lineno", "in_app")


class ErrorReports(logging.Handler):
    """Reports log records of errors."""

    def __init__(self, client: Client, process: str) -> None:
        super().__init__(logging.ERROR)
        self._client = client
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        """Report a record."""
        if not record.name.startswith(_REPORTERS):
            self._client.capture_event(self._event(record))

    def _event(self, record: logging.LogRecord) -> Any:
        is_ours = record.name.partition(".")[0] in _OUR_PACKAGES
        event: dict[str, Any] = {
            "level": "fatal" if record.levelno >= logging.CRITICAL else "error",
            "logger": record.name,
            "logentry": {"message": str(record.msg) if is_ours else f"an error of {record.name}"},
            "tags": {"process": self._process},
        }
        trace = CURRENT.get()
        if trace is not None:
            event["contexts"] = {"trace": {"trace_id": trace.trace_id, "span_id": trace.parent_id}}
            if trace.request_id is not None:
                event["tags"]["request_id"] = trace.request_id
        if record.exc_info and record.exc_info[1] is not None:
            found, _ = event_from_exception(record.exc_info[1], self._client.options)
            event["exception"] = {"values": [_without_values(each) for each in found["exception"]["values"]]}
        return event


def _without_values(exception: Any) -> dict[str, Any]:
    """Return the type of an exception and where it was raised."""
    frames = (exception.get("stacktrace") or {}).get("frames", ())
    kept = [{name: frame[name] for name in _FRAME if name in frame} for frame in frames]
    return {"type": exception["type"], "module": exception.get("module"), "stacktrace": {"frames": kept}}


def accepts_reports(dsn: str) -> bool:
    """True if Sentry knows the project and its key, by sending an envelope without an event."""
    auth = Dsn(dsn).to_auth("change-freeze")
    headers = {"X-Sentry-Auth": auth.to_header(), "Content-Type": "application/x-sentry-envelope"}
    try:
        return requests.post(auth.get_api_url(), data=b"{}\n", headers=headers, timeout=FLUSH_TIMEOUT).ok
    except requests.RequestException:
        return False


@contextmanager
def reported_errors(dsn: str, process: str) -> Iterator[None]:
    """Report the errors that this process logs while the block runs."""
    client = Client(
        dsn,
        release=VERSION,
        default_integrations=False,
        auto_enabling_integrations=False,
        include_local_variables=False,
        max_request_body_size="never",
        auto_session_tracking=False,
        send_client_reports=False,
        _experiments={"transport_compression_level": 9},  # of gzip, which every server reads, and not Brotli
    )
    reports = ErrorReports(client, process)
    root = logging.getLogger()
    root.addHandler(reports)
    try:
        yield
    finally:
        root.removeHandler(reports)
        client.close(timeout=FLUSH_TIMEOUT)
