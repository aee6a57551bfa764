"""Configuration: typed, read from the environment, validated at the start with all errors listed.

`python -m app.config` prints the table of variables.
"""

import logging
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import SplitResult, urlsplit

import sqlalchemy.exc
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sqlalchemy import make_url

from integrations.mail.smtp import SCHEMES
from rules.billing.plans import FREE, PLANS

logger = logging.getLogger(__name__)


class ConfigurationError(Exception):
    """The environment is invalid; the message has a line for each error."""


def _url(*schemes: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        parts = _split(text)
        if parts.scheme not in schemes:
            raise ValueError(f"must be a URL of {' or '.join(schemes)}")
        if parts.scheme in _WITH_HOST and not parts.hostname:
            raise ValueError("must name a host")
        return text.rstrip("/") if "http" in schemes else text

    return read


_WITH_HOST = {"http", "https", "redis", "rediss"}
"""Schemes whose URLs need a host."""


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


def _listening_address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if host != "unix" and not (colon and port.isdecimal() and re.fullmatch(r"[\w.-]*|\[[0-9A-Fa-f:.]+\]", host)):
        raise ValueError("must be host:port or unix:path")
    if host != "unix":
        _number(1, MAX_PORT)(port)
    return text


def read_database_url(text: str) -> str:
    """Return the URL of a PostgreSQL database. Raise ValueError for any other text."""
    try:
        driver = make_url(text).drivername
    except (sqlalchemy.exc.ArgumentError, ValueError):
        driver = ""
    if driver not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError("must be a URL of postgresql")
    return text


def _web_origin(text: str) -> str:
    """Return a URL that browsers consider trustworthy. Raise ValueError for any other.

    Browsers send `Sec-Fetch-*`, on which the protection of forms relies, to such origins only (Secure Contexts, 3.1).
    """
    parts = _split(text)
    host = parts.hostname or ""
    local = host in {"localhost", "::1"} or host.endswith(".localhost") or re.fullmatch(r"127(\.\d{1,3}){3}", host)
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError("must be an https URL, or an http URL of this machine")
    return text.rstrip("/")


def _number(minimum: int, maximum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(text)

    return read


def _seconds(minimum: int, maximum: int) -> Callable[[str], timedelta]:
    number = _number(minimum, maximum)
    return lambda text: timedelta(seconds=number(text))


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return text

    return read


def _switch(text: str) -> bool:
    if text not in {"0", "1", "true", "false"}:
        raise ValueError("must be 1 or 0")
    return text in {"1", "true"}


def _secret(text: str) -> str:
    if len(text) < 16:
        raise ValueError("must have at least 16 characters")
    return text


def _mail_server(text: str) -> str:
    parts = _split(text)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"must be a URL of {' or '.join(SCHEMES)}")
    if parts.scheme == "smtp" and parts.password:
        raise ValueError("has a password, which requires smtp+starttls or smtps")
    return text


def _private_key(text: str) -> str:
    try:
        is_usable = isinstance(load_pem_private_key(text.encode(), None), RSAPrivateKey)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        is_usable = False
    if not is_usable:
        raise ValueError("must be an RSA private key in PEM format, without a password")
    return text


def _private_key_file(text: str) -> Path:
    file = Path(text)
    try:
        _private_key(file.read_text())
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}: {text}") from None
    except UnicodeDecodeError:
        raise ValueError(f"is not a text file: {text}") from None
    return file


def _sender(text: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]*", text) or not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(text)[1]):
        raise ValueError("must be an e-mail address, with or without a name")
    return text


def _signing_secrets(text: str) -> tuple[str, ...]:
    secrets = tuple(each.strip() for each in text.split(","))
    if len(secrets) > MAX_SIGNING_SECRETS or any(len(each) < 16 for each in secrets):
        raise ValueError("must be one secret, or two separated by a comma, of at least 16 characters each")
    return secrets


def _days(minimum: int, maximum: int) -> Callable[[str], timedelta]:
    number = _number(minimum, maximum)
    return lambda text: timedelta(days=number(text))


def _level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise ValueError("must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


@dataclass(frozen=True, slots=True)
class Variable:
    """The description of an environment variable, and the parser of its text."""

    description: str
    parse: Callable[[str], Any] = str


_HTTP = _url("http", "https")
_REDIS = _url("redis", "rediss", "unix")
_LOCAL = "http://127.0.0.1:8080"
MAX_PORT = 65535
MAX_SIGNING_SECRETS = 2
"""One, and the one that replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a process; the variable of a field is its name in capitals."""

    database_url: Annotated[
        str,
        Variable(
            "PostgreSQL, as a login that owns nothing and may take the three roles of the service", read_database_url
        ),
    ] = field(repr=False)
    database_direct_url: Annotated[
        str,
        Variable(
            "PostgreSQL without a connection pooler, for workers and sweepers (default: DATABASE_URL)",
            read_database_url,
        ),
    ] = field(default="", repr=False)
    redis_url: Annotated[str, Variable("Redis, for wake-ups and rate limits", _REDIS)] = field(repr=False)
    secret_key: Annotated[
        str,
        Variable(
            "Encrypts secrets in the database (signing keys, mails, stored responses); the same on all machines",
            _secret,
        ),
    ] = field(repr=False)
    base_url: Annotated[str, Variable("Public URL of this API", _HTTP)] = _LOCAL
    web_url: Annotated[str, Variable("Origin of the web pages, where users sign in", _web_origin)] = _LOCAL
    docs_url: Annotated[str, Variable("URL of the reference; errors link to its /errors", _HTTP)] = _LOCAL + "/docs"
    status_url: Annotated[str, Variable("URL of the status page, given during maintenance", _HTTP)] = _LOCAL + "/status"
    github_api_url: Annotated[str, Variable("URL of GitHub's REST API", _HTTP)] = "https://api.github.com"
    github_graphql_url: Annotated[
        str | None, Variable("URL of GitHub's GraphQL API (default: derived from the REST URL)", _HTTP)
    ] = None
    github_app_id: Annotated[int | None, Variable("Id of the GitHub App", _number(1, 2**53))] = None
    github_app_slug: Annotated[str | None, Variable("Slug of the GitHub App")] = None
    github_app_private_key: Annotated[str | None, Variable("Private key of the GitHub App, PEM", _private_key)] = field(
        default=None, repr=False
    )
    github_app_private_key_file: Annotated[
        Path | None, Variable("File with the private key, instead", _private_key_file)
    ] = None
    github_app_client_id: Annotated[
        str | None, Variable("Client id of the GitHub App, to verify who claims an installation")
    ] = None
    github_app_client_secret: Annotated[str | None, Variable("Client secret of the GitHub App")] = field(
        default=None, repr=False
    )
    github_client_id: Annotated[str | None, Variable("OAuth client id, for administrators who authorise rulesets")] = (
        None
    )
    github_client_secret: Annotated[str | None, Variable("OAuth client secret")] = field(default=None, repr=False)
    github_web_url: Annotated[str, Variable("URL where users sign in at GitHub", _HTTP)] = "https://github.com"
    github_webhook_secret: Annotated[str | None, Variable("Webhook secret of the GitHub App")] = field(
        default=None, repr=False
    )
    github_content_limit: Annotated[
        str,
        Variable(
            "How checks count towards GitHub's content limit: learn (from rate-limit errors), off, requests, aliases",
            _one_of("learn", "off", "requests", "aliases"),
        ),
    ] = "learn"
    github_content_per_minute: Annotated[int, Variable("GitHub's content limit per minute", _number(1, 10**6))] = 80
    github_content_per_hour: Annotated[int, Variable("GitHub's content limit per hour", _number(1, 10**7))] = 500
    github_points_per_minute: Annotated[
        int,
        Variable(
            "Rate-limit points that jobs may use per minute, half of them reserved for verdicts; GitHub allows 2000",
            _number(10, 10**6),
        ),
    ] = 1800
    cursor_secret: Annotated[
        str, Variable("Signs cursors; the same on all machines (default: random at each start)", _secret)
    ] = field(default="", repr=False)
    smtp_url: Annotated[
        str | None,
        Variable(
            "Mail server: smtp+starttls, smtps, or unencrypted smtp; without one, mails stay queued", _mail_server
        ),
    ] = field(default=None, repr=False)
    mail_from: Annotated[str | None, Variable("Sender of mails, such as Freezes <freezes@example.com>", _sender)] = None
    session_issuer: Annotated[str | None, Variable("Issuer of access tokens (default: WEB_URL)")] = None
    session_jwt_ttl: Annotated[timedelta, Variable("Lifetime of access tokens in seconds", _seconds(1, 86400))] = (
        timedelta(minutes=15)
    )
    rate_limit_organization: Annotated[int, Variable("Requests per minute of an organisation", _number(1, 10**9))] = (
        6000
    )
    rate_limit_writes: Annotated[int, Variable("Writes per minute of one credential", _number(1, 10**9))] = 600
    default_plan: Annotated[
        str, Variable("Plan that organisations have at least, unless an operator grants another", _one_of(*PLANS))
    ] = FREE.id
    stripe_secret_key: Annotated[
        str | None, Variable("Key of Stripe's API, best a restricted one; without it, nothing can be bought", _secret)
    ] = field(default=None, repr=False)
    stripe_webhook_secret: Annotated[
        tuple[str, ...],
        Variable(
            "Signing secret of Stripe's webhook endpoint; two, separated by a comma, while one replaces the other",
            _signing_secrets,
        ),
    ] = field(default=(), repr=False)
    stripe_api_url: Annotated[str, Variable("URL of Stripe's API", _HTTP)] = "https://api.stripe.com"
    stripe_portal_configuration: Annotated[
        str | None, Variable("Id of the customer portal's configuration (default: that of the Stripe account)")
    ] = None
    stripe_automatic_tax: Annotated[bool, Variable("Let Stripe compute taxes at checkout (1 or 0)", _switch)] = False
    billing_grace_days: Annotated[
        timedelta, Variable("Days for which a plan goes on after a failed payment", _days(0, 90))
    ] = timedelta(days=14)
    max_targets: Annotated[int, Variable("Branches that one freeze request may cover", _number(1, 10**6))] = 10_000
    validate_responses: Annotated[bool, Variable("Validate all responses against the contract (1 or 0)", _switch)] = (
        False
    )
    maintenance_file: Annotated[Path | None, Variable("While this file exists, requests get 503 maintenance", Path)] = (
        None
    )
    database_pool_size: Annotated[int, Variable("Database connections of one API process", _number(1, 500))] = 8
    max_connections: Annotated[
        int,
        Variable("Open connections of clients to one API process; each takes a file (`ulimit -n`)", _number(10, 10**6)),
    ] = 800
    sweep_every: Annotated[timedelta, Variable("Seconds between two sweeps for due work", _seconds(1, 3600))] = (
        timedelta(seconds=2)
    )
    full_pass_every: Annotated[
        timedelta, Variable("Seconds between two full resyncs with GitHub", _seconds(1, 86400))
    ] = timedelta(minutes=5)
    log_level: Annotated[str, Variable("Minimum level of log lines", _level)] = "INFO"

    @property
    def issuer(self) -> str:
        """The issuer of access tokens."""
        return self.session_issuer or self.web_url

    @property
    def private_key(self) -> str | None:
        """The App's private key, from the variable or from the file."""
        if self.github_app_private_key or self.github_app_private_key_file is None:
            return self.github_app_private_key
        return self.github_app_private_key_file.read_text()


_REQUIRED_WITH = (
    ("GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"),
    ("GITHUB_CLIENT_SECRET", "GITHUB_CLIENT_ID"),
    ("GITHUB_APP_CLIENT_ID", "GITHUB_APP_CLIENT_SECRET"),
    ("GITHUB_APP_CLIENT_SECRET", "GITHUB_APP_CLIENT_ID"),
    ("SMTP_URL", "MAIL_FROM"),
    ("STRIPE_SECRET_KEY", "STRIPE_WEBHOOK_SECRET"),
    ("STRIPE_WEBHOOK_SECRET", "STRIPE_SECRET_KEY"),
)
"""Variables that require another one."""


_OTHER_VARIABLES = {
    "DATABASE_OWNER_URL": (
        Variable("PostgreSQL as the owner of the schema, for `python -m app migrate` alone", read_database_url),
        "DATABASE_URL",
    ),
    "BIND": (
        Variable("Address on which the API listens: host:port, or unix:path", _listening_address),
        "127.0.0.1 and PORT",
    ),
    "PORT": (Variable("Port on which the API listens on 127.0.0.1", _number(1, MAX_PORT)), "8080"),
    "WEB_CONCURRENCY": (Variable("Processes of the API", _number(1, 1000)), "one for each core, at least 2"),
    "FORWARDED_ALLOW_IPS": (Variable("Addresses of proxies whose `X-Forwarded-For` is believed"), "127.0.0.1"),
}
"""Variables that commands, gunicorn and uvicorn read themselves, with their defaults."""
_SIMILARITY = 0.85
"""Names that are more similar than this to one of our variables are taken for misspelt ones."""


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    """Return the configuration. Raise ConfigurationError with a line for each error; warn of misspelt variables."""
    environment = os.environ if environment is None else environment
    warn_of_misspelt_variables(environment)
    values: dict[str, Any] = {}
    errors = []
    for one, variable in _variables():
        name = one.name.upper()
        text = environment.get(name, "").strip()
        if not text:
            if _is_required(one):
                errors.append(f"{name} is required: {variable.description}")
            continue
        try:
            values[one.name] = variable.parse(text)
        except ValueError as error:
            errors.append(f"{name} {error}")
    for name, other in _REQUIRED_WITH:
        if name.lower() in values and other.lower() not in values:
            errors.append(f"{other} is required if {name} is set")
    if errors:
        raise ConfigurationError("\n".join(errors))
    values.setdefault("database_direct_url", values["database_url"])
    values.setdefault("cursor_secret", secrets.token_urlsafe(32))
    return Config(**values)


def check_other_variables(environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError with a line for each invalid variable that is not part of the configuration."""
    errors = []
    for name, (variable, _) in _OTHER_VARIABLES.items():
        text = environment.get(name, "").strip()
        try:
            if text:
                variable.parse(text)
        except ValueError as error:
            errors.append(f"{name} {error}")
    if errors:
        raise ConfigurationError("\n".join(errors))


def warn_of_misspelt_variables(environment: Iterable[str]) -> None:
    """Log a warning for each name that resembles one of ours."""
    for name, meant in misspelt_variables(environment):
        logger.warning("%s is not a variable of this service: did you mean %s?", name, meant)


def misspelt_variables(environment: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names that resemble one of ours, each with the one that may be meant."""
    ours = [*(one.name.upper() for one, _ in _variables()), *_OTHER_VARIABLES]
    found = []
    for name in sorted(set(environment) - set(ours)):
        similar = get_close_matches(name.upper(), ours, n=1, cutoff=_SIMILARITY)
        found += [(name, similar[0])] if similar else []
    return found


def _variables() -> Iterator[tuple[Field[Any], Variable]]:
    hints = get_type_hints(Config, include_extras=True)
    for one in fields(Config):
        yield one, hints[one.name].__metadata__[0]


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING


def table() -> str:
    """Return the variables as a Markdown table."""
    rows = ["| variable | meaning | default |", "|---|---|---|"]
    for one, variable in _variables():
        default = "required" if _is_required(one) else _format_default(one.default)
        rows.append(f"| `{one.name.upper()}` | {variable.description} | {default} |")
    for name, (variable, default) in _OTHER_VARIABLES.items():
        rows.append(f"| `{name}` | {variable.description} | {default} |")
    return "\n".join(rows)


def _format_default(default: Any) -> str:
    """Return a default as the text of an environment variable."""
    if isinstance(default, timedelta):
        return str(default.days or int(default.total_seconds()))
    if isinstance(default, bool):
        return str(int(default))
    return "" if default in {None, ()} else str(default)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
