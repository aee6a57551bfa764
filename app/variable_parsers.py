"""Parsers of the texts of environment variables: each returns the value, or raises ValueError with what it must be."""

import re
from collections.abc import Callable
from datetime import timedelta
from email.utils import parseaddr
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import sqlalchemy.exc
from cryptography.exceptions import UnsupportedAlgorithm
from sqlalchemy import make_url

from app.logs import LEVELS
from integrations.github.tokens import read_key
from integrations.mail.smtp import SCHEMES

MAX_PORT = 65535
MAX_SIGNING_SECRETS = 2
"""One, and the one that replaces it."""
_WITH_HOST = {"http", "https", "redis", "rediss"}
"""Schemes whose URLs need a host."""


def url(*schemes: str) -> Callable[[str], str]:
    """Return the parser of a URL of one of these schemes."""

    def read(text: str) -> str:
        parts = _split(text)
        if parts.scheme not in schemes:
            raise ValueError(f"must be a URL of {' or '.join(schemes)}")
        if parts.scheme in _WITH_HOST and not parts.hostname:
            raise ValueError("must name a host")
        return text.rstrip("/") if "http" in schemes else text

    return read


def _split(text: str) -> SplitResult:
    """Return the parts of a URL. Raise ValueError if host or port are malformed."""
    try:
        parts = urlsplit(text)
        is_valid = parts.port != 0 and not re.search(r"\s", text)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("must be a URL with a valid host and port")
    return parts


def listening_address(text: str) -> str:
    """Return an address to listen on. Raise ValueError for any other text."""
    host, colon, port = text.rpartition(":")
    if host != "unix" and not (colon and port.isdecimal() and re.fullmatch(r"[\w.-]*|\[[0-9A-Fa-f:.]+\]", host)):
        raise ValueError("must be host:port or unix:path")
    if host != "unix":
        number(1, MAX_PORT)(port)
    return text


def tcp_address(text: str) -> tuple[str, int]:
    """Return host and port to listen on; the host is empty for all addresses. Raise ValueError for any other text."""
    if text.startswith("unix:"):
        raise ValueError("must be host:port")
    host, _, port = listening_address(text).rpartition(":")
    return host.strip("[]"), int(port)


def database_url(text: str) -> str:
    """Return the URL of a PostgreSQL database. Raise ValueError for any other text."""
    try:
        driver = make_url(text).drivername
    except (sqlalchemy.exc.ArgumentError, ValueError):
        driver = ""
    if driver not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError("must be a URL of postgresql")
    return text


def web_origin(text: str) -> str:
    """Return a URL that browsers consider trustworthy. Raise ValueError for any other.

    Browsers send `Sec-Fetch-*`, on which the protection of forms relies, to such origins only (Secure Contexts, 3.1).
    """
    parts = _split(text)
    host = parts.hostname or ""
    local = host in {"localhost", "::1"} or host.endswith(".localhost") or re.fullmatch(r"127(\.\d{1,3}){3}", host)
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError("must be an https URL, or an http URL of this machine")
    return text.rstrip("/")


def number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return the parser of a whole number between two, inclusive."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(text)

    return read


def seconds(minimum: int, maximum: int) -> Callable[[str], timedelta]:
    """Return the parser of a number of seconds."""
    whole = number(minimum, maximum)
    return lambda text: timedelta(seconds=whole(text))


def days(minimum: int, maximum: int) -> Callable[[str], timedelta]:
    """Return the parser of a number of days."""
    whole = number(minimum, maximum)
    return lambda text: timedelta(days=whole(text))


def one_of(*words: str) -> Callable[[str], str]:
    """Return the parser of one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return text

    return read


def switch(text: str) -> bool:
    """Return whether something is switched on. Raise ValueError for any other text."""
    if text not in {"0", "1", "true", "false"}:
        raise ValueError("must be 1 or 0")
    return text in {"1", "true"}


def secret(text: str) -> str:
    """Return a secret. Raise ValueError if it is too short."""
    if len(text) < 16:
        raise ValueError("must have at least 16 characters")
    return text


def mail_server(text: str) -> str:
    """Return the URL of a mail server. Raise ValueError for any other text, and for a password sent in the clear."""
    parts = _split(text)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"must be a URL of {' or '.join(SCHEMES)}")
    if parts.scheme == "smtp" and parts.password:
        raise ValueError("has a password, which requires smtp+starttls or smtps")
    return text


def private_key(text: str) -> str:
    """Return an RSA private key as PEM. Raise ValueError for any other text."""
    try:
        read_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("must be an RSA private key in PEM format, without a password") from None
    return text


def private_key_file(text: str) -> Path:
    """Return the path of a file with an RSA private key. Raise ValueError if there is none."""
    file = Path(text)
    try:
        private_key(file.read_text())
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}: {text}") from None
    except UnicodeDecodeError:
        raise ValueError(f"is not a text file: {text}") from None
    return file


def sender(text: str) -> str:
    """Return the address that mails are from. Raise ValueError for any other text."""
    if not re.fullmatch(r"[^\x00-\x1f\x7f]*", text) or not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(text)[1]):
        raise ValueError("must be an e-mail address, with or without a name")
    return text


def signing_secrets(text: str) -> tuple[str, ...]:
    """Return one or two secrets. Raise ValueError for any other text."""
    secrets = tuple(each.strip() for each in text.split(","))
    if len(secrets) > MAX_SIGNING_SECRETS or any(len(each) < 16 for each in secrets):
        raise ValueError("must be one secret, or two separated by a comma, of at least 16 characters each")
    return secrets


def domains(text: str) -> tuple[str, ...]:
    """Return domains in lower case. Raise ValueError for any other text."""
    found = tuple(each.strip().lower() for each in text.split(","))
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    if not all(re.fullmatch(rf"{label}(\.{label})+", each) for each in found):
        raise ValueError("must be domains such as example.com, separated by commas")
    return found


def slash_command(text: str) -> str:
    """Return a command of Slack. Raise ValueError for any other text."""
    if not re.fullmatch(r"/[a-z0-9_-]{1,31}", text):
        raise ValueError("must be a slash and up to 31 lower-case letters, digits, - and _")
    return text


def collector(text: str) -> str:
    """Return the URL of a collector of traces. Raise ValueError for any other text, or without the packages."""
    found = url("http", "https")(text)
    _require_package("opentelemetry.sdk", "tracing")
    return found


def sentry_dsn(text: str) -> str:
    """Return the address of a project at Sentry. Raise ValueError for any other text, or without the package."""
    parts = _split(text)
    project = parts.path.rpartition("/")[2]
    if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.username or not project.isdecimal():
        raise ValueError("must be a DSN: https://<key>@<host>/<project>")
    _require_package("sentry_sdk", "sentry")
    return text


def _require_package(name: str, extra: str) -> None:
    """Raise ValueError unless a package that the service can run without is installed."""
    if find_spec(name) is None:
        raise ValueError(f"needs the packages of requirements-observability.lock (extra `{extra}`)")


def level(text: str) -> str:
    """Return the name of a level of log lines. Raise ValueError for any other text."""
    if text.upper() not in LEVELS:
        raise ValueError("must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()
