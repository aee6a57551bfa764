"""What a process reports to others, where the configuration names them: traces to OpenTelemetry, errors to Sentry.

Their packages are imported only then. Each process begins for itself, after gunicorn has forked it.
"""

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from app.config import Config


@contextmanager
def telemetry(config: Config, process: str) -> Iterator[None]:
    """Report traces and errors of a process while the block runs."""
    with ExitStack() as stack:
        if config.collector:
            stack.enter_context(importlib.import_module("app.tracing").reported_traces(config.collector, process))
        if config.sentry_dsn:
            reports = importlib.import_module("app.error_reports")
            stack.enter_context(reports.reported_errors(config.sentry_dsn, process))
        yield
