"""Logging: JSON lines on standard error, with all secrets redacted.

Every line of a process is one of JSON: those of libraries and of gunicorn, warnings, and errors that nothing handles.
Only what an operator starts at a terminal reports there in plain text why it cannot start.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import structlog

from integrations.traces import CURRENT
from rules.version import VERSION

logger = logging.getLogger(__name__)

_SECRETS = re.compile(
    r"svc_live_[0-9A-Za-z]+|svc_(?:session|code|refresh|feed)_[\w-]+"  # our API keys and random tokens
    r"|whsec_[\w+/=-]+"  # secrets of webhooks
    r"|eyJ[\w-]{10,}(?:\.[\w-]+){0,2}"  # JSON web tokens, in time that is linear in the length of the text
    r"|gh[a-z]_[0-9A-Za-z_]+|github_pat_\w+"  # GitHub's tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"  # a password in a URL
    r"|(?i:(?<=bearer )|(?<=password=))[^\s'\",;&]+",
    re.DOTALL,
)
_MARK = "[redacted]"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def redact(text: str) -> str:
    """Return the text with all secrets redacted."""
    return _SECRETS.sub(_MARK, text)


def _redact_event(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: _redacted(value) for key, value in event.items()}


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return value if isinstance(value, int | float | bool | None) else redact(str(value))


def _add_trace(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    trace = CURRENT.get()
    if trace is not None:
        event.setdefault("trace_id", trace.trace_id)
        if trace.request_id is not None:
            event.setdefault("request_id", trace.request_id)
    return event


def _formatter() -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.stdlib.PositionalArgumentsFormatter(),
            _redact_event,
            structlog.processors.JSONRenderer(),
        ],
    )


class _JsonHandler(logging.StreamHandler[Any]):
    """Writes lines of JSON; a line that cannot be written becomes one that names its logger."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(_formatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the standard library
        """Write the text of a record whose arguments do not fit."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().emit(_record(record.name, logging.ERROR, f"a line could not be formatted: {record.msg}"))


def configure(level: str) -> None:
    """Write all log records, including those of libraries, to standard error as JSON lines."""
    root = logging.getLogger()
    root.handlers[:] = [_JsonHandler()]
    root.setLevel(level)
    for noisy in ("alembic", "connexion", "openapi_spec_validator", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def begin() -> None:
    """Configure the logs of a process before it has read its configuration, with warnings and unhandled errors."""
    configure(_level())
    logging.captureWarnings(capture=True)
    sys.excepthook = log_unhandled
    threading.excepthook = lambda failed: log_unhandled(failed.exc_type, failed.exc_value, failed.exc_traceback)
    sys.unraisablehook = lambda failed: log_unhandled(failed.exc_type, failed.exc_value, failed.exc_traceback)


def _level() -> str:
    """Return the level that the environment names; INFO if it names none, which `load_config` reports."""
    level = os.environ.get("LOG_LEVEL", "").strip().upper()
    return level if level in LEVELS else "INFO"


def log_unhandled(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log an error that nothing handles."""
    if issubclass(kind, KeyboardInterrupt):
        logger.warning("interrupted")
    else:
        logger.critical("an error that nothing handles", exc_info=(kind, error or kind(), trace))


def report(level: int, text: str, problems: Sequence[str] = ()) -> None:
    """Report to the operator who starts a process: in plain text on a terminal, elsewhere as a line of JSON."""
    if sys.stderr.isatty():
        sys.stderr.write("\n".join([text, *problems]) + "\n")
    elif level >= logging.getLevelNamesMapping()[_level()]:
        record = _record(__name__, level, text)
        if problems:
            record.problems = list(problems)
        sys.stderr.write(_formatter().format(record) + "\n")


def _record(name: str, level: int, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, text, None, None)


def announce_start(process: str) -> None:
    """Log that a process of this release starts."""
    logger.info("%s starts, release %s", process, VERSION)


def report_failed_start(process: str, error: Exception) -> None:
    """Report why a process cannot start."""
    report(logging.CRITICAL, f"The {process} cannot start.", str(error).splitlines())
