"""What a process reports to others, where the configuration names them: traces to OpenTelemetry, errors to Sentry.

Their packages are imported only then. Each process begins for itself, after gunicorn has forked it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from app.config import Config


@contextmanager
def telemetry(config: Config, process: str) -> Iterator[None]:
    """Report traces and errors of a process while the block runs."""
    with ExitStack() as stack:
        if config.collector:
            from app.tracing import reported_traces

            stack.enter_context(reported_traces(config.collector, process))
        if config.sentry_dsn:
            from app.error_reports import reported_errors

            stack.enter_context(reported_errors(config.sentry_dsn, process))
        yield
