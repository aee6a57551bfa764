"""Logging: JSON lines on standard error, with all secrets redacted."""

import logging
import re
import sys
from typing import Any

import structlog

_SECRETS = re.compile(
    r"svc_live_[0-9A-Za-z]+|svc_(?:session|code|refresh|feed)_[\w-]+"  # our API keys and random tokens
    r"|eyJ[\w-]{10,}(?:\.[\w-]+){0,2}"  # JSON web tokens, in time that is linear in the length of the text
    r"|gh[a-z]_[0-9A-Za-z_]+|github_pat_\w+"  # GitHub's tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"  # a password in a URL
    r"|(?i:(?<=bearer )|(?<=password=))[^\s'\",;&]+",
    re.DOTALL,
)
_MARK = "[redacted]"


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


def configure(level: str) -> None:
    """Write all log records, including those of libraries, to standard error as JSON lines."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.stdlib.PositionalArgumentsFormatter(),
            _redact_event,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("connexion", "openapi_spec_validator", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
