"""Configuration: typed, from the environment, refused at the start with every fault named.

`python -m app.config` prints the table of variables.
"""

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlsplit

from integrations.mail.smtp import SCHEMES


class ConfigurationError(Exception):
    """The environment cannot be used; the message has a line for every fault."""


def _url(*schemes: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if urlsplit(text).scheme not in schemes:
            raise ValueError(f"must be a URL of {' or '.join(schemes)}")
        return text.rstrip("/") if "http" in schemes else text

    return read


def _web_origin(text: str) -> str:
    """Take only what browsers trust: of other pages they do not say where a form without referrer comes from.

    Source: Secure Contexts, 3.1; the headers `Sec-Fetch-*` are sent to such origins alone.
    """
    parts = urlsplit(text)
    host = parts.hostname or ""
    here = host in {"localhost", "::1"} or host.endswith(".localhost") or re.fullmatch(r"127(\.\d{1,3}){3}", host)
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        raise ValueError("must be a URL of https, or of http on this machine")
    return text.rstrip("/")


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return read


def _seconds(least: int, most: int) -> Callable[[str], timedelta]:
    number = _number(least, most)
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
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"must be a URL of {' or '.join(SCHEMES)}")
    if parts.scheme == "smtp" and parts.password:
        raise ValueError("has a password, which needs smtp+starttls or smtps")
    return text


def _sender(text: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]*", text) or not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(text)[1]):
        raise ValueError("must be an e-mail address, with or without a name")
    return text


def _level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise ValueError("must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


@dataclass(frozen=True, slots=True)
class Variable:
    """What an environment variable is for, and how its text is read."""

    meaning: str
    read: Callable[[str], Any] = str


_HTTP = _url("http", "https")
_DATABASE = _url("postgresql", "postgres", "postgresql+psycopg")
_REDIS = _url("redis", "rediss", "unix")
_LOCAL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that a process is told; a field's name in capitals is its variable."""

    database_url: Annotated[str, Variable("PostgreSQL, as the owner; processes take on a lesser role", _DATABASE)] = (
        field(repr=False)
    )
    database_direct_url: Annotated[
        str,
        Variable("PostgreSQL without a connection pooler, for workers and sweepers (default: DATABASE_URL)", _DATABASE),
    ] = field(default="", repr=False)
    redis_url: Annotated[str, Variable("Redis, for wake-ups and rate limits", _REDIS)] = field(repr=False)
    secret_key: Annotated[
        str,
        Variable("Seals what the database must not tell: signing keys, mails; one for all machines", _secret),
    ] = field(repr=False)
    base_url: Annotated[str, Variable("Public address of this API", _HTTP)] = _LOCAL
    web_url: Annotated[str, Variable("Web origin, where people sign in", _web_origin)] = _LOCAL
    docs_url: Annotated[str, Variable("Reference pages; errors link to its /errors", _HTTP)] = _LOCAL + "/docs"
    status_url: Annotated[str, Variable("Status page, named in a maintenance window", _HTTP)] = _LOCAL + "/status"
    github_api_url: Annotated[str, Variable("REST address of the code host", _HTTP)] = "https://api.github.com"
    github_graphql_url: Annotated[str | None, Variable("Its GraphQL address (default: from the REST one)", _HTTP)] = (
        None
    )
    github_app_id: Annotated[int | None, Variable("Id of the GitHub App", _number(1, 2**53))] = None
    github_app_slug: Annotated[str | None, Variable("Name of the GitHub App in addresses")] = None
    github_app_private_key: Annotated[str | None, Variable("The App's private key, PEM")] = field(
        default=None, repr=False
    )
    github_app_private_key_file: Annotated[Path | None, Variable("File that holds it instead", Path)] = None
    github_app_client_id: Annotated[
        str | None, Variable("The App's own client id: who claims an installation proves to administer it")
    ] = None
    github_app_client_secret: Annotated[str | None, Variable("Its secret")] = field(default=None, repr=False)
    github_client_id: Annotated[
        str | None, Variable("OAuth client id: an administrator may authorise once what the App may not write")
    ] = None
    github_client_secret: Annotated[str | None, Variable("Its secret")] = field(default=None, repr=False)
    github_web_url: Annotated[str, Variable("Where people sign in at the code host", _HTTP)] = "https://github.com"
    github_webhook_secret: Annotated[str | None, Variable("Shared secret of the App's webhooks")] = field(
        default=None, repr=False
    )
    github_content_limit: Annotated[
        str,
        Variable(
            "Which checks count as content that GitHub limits: learn (from refusals), off, requests, aliases",
            _one_of("learn", "off", "requests", "aliases"),
        ),
    ] = "learn"
    github_content_per_minute: Annotated[
        int, Variable("How much of it GitHub allows in a minute", _number(1, 10**6))
    ] = 80
    github_content_per_hour: Annotated[int, Variable("The same in an hour", _number(1, 10**7))] = 500
    github_points_per_minute: Annotated[
        int,
        Variable(
            "Points that jobs may use in a minute, half of them for verdicts alone; GitHub allows 2000",
            _number(10, 10**6),
        ),
    ] = 1800
    cursor_secret: Annotated[
        str, Variable("Signs cursors; one for all machines (default: made at each start)", _secret)
    ] = field(default="", repr=False)
    smtp_url: Annotated[
        str | None,
        Variable("Mail server: smtp+starttls, smtps, or smtp in the clear; without one mails wait", _mail_server),
    ] = field(default=None, repr=False)
    mail_from: Annotated[
        str | None, Variable("Who mails come from, such as Freezes <freezes@example.com>", _sender)
    ] = None
    session_issuer: Annotated[str | None, Variable("Issuer of session JWTs (default: WEB_URL)")] = None
    session_jwt_ttl: Annotated[timedelta, Variable("Seconds a session JWT is valid", _seconds(1, 86400))] = timedelta(
        minutes=15
    )
    rate_limit_organization: Annotated[int, Variable("Requests per minute of an organisation", _number(1, 10**9))] = (
        6000
    )
    rate_limit_writes: Annotated[int, Variable("Writes per minute of one credential", _number(1, 10**9))] = 600
    max_targets: Annotated[int, Variable("Branches that one freeze request may cover", _number(1, 10**6))] = 10_000
    validate_responses: Annotated[bool, Variable("Check every answer against the contract (1 or 0)", _switch)] = False
    maintenance_file: Annotated[Path | None, Variable("While this file exists, requests get 503 maintenance", Path)] = (
        None
    )
    database_pool_size: Annotated[int, Variable("Connections of one API process", _number(1, 500))] = 8
    sweep_every: Annotated[timedelta, Variable("Seconds between two looks for what is due", _seconds(1, 3600))] = (
        timedelta(seconds=2)
    )
    full_pass_every: Annotated[timedelta, Variable("Seconds between two full re-readings", _seconds(1, 86400))] = (
        timedelta(minutes=5)
    )
    log_level: Annotated[str, Variable("Least severe lines that are logged", _level)] = "INFO"

    @property
    def issuer(self) -> str:
        """Who issues session tokens."""
        return self.session_issuer or self.web_url

    @property
    def private_key(self) -> str | None:
        """The App's private key, from the variable or from the file."""
        if self.github_app_private_key or self.github_app_private_key_file is None:
            return self.github_app_private_key
        return self.github_app_private_key_file.read_text()


_TOGETHER = (
    ("GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"),
    ("GITHUB_CLIENT_SECRET", "GITHUB_CLIENT_ID"),
    ("GITHUB_APP_CLIENT_ID", "GITHUB_APP_CLIENT_SECRET"),
    ("GITHUB_APP_CLIENT_SECRET", "GITHUB_APP_CLIENT_ID"),
    ("SMTP_URL", "MAIL_FROM"),
)
"""Variables that need another one."""


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    """Read the configuration; raises ConfigurationError with a line for every fault."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    faults = []
    for one, variable in _variables():
        name = one.name.upper()
        text = environment.get(name, "").strip()
        if not text:
            if _is_required(one):
                faults.append(f"{name} is required: {variable.meaning}")
            continue
        try:
            values[one.name] = variable.read(text)
        except ValueError as error:
            faults.append(f"{name} {error}")
    key_file = values.get("github_app_private_key_file")
    if key_file and not key_file.is_file():
        faults.append(f"GITHUB_APP_PRIVATE_KEY_FILE: there is no file {key_file}")
    for name, other in _TOGETHER:
        if name.lower() in values and other.lower() not in values:
            faults.append(f"{other} is required where {name} is set")
    if faults:
        raise ConfigurationError("\n".join(faults))
    values.setdefault("database_direct_url", values["database_url"])
    values.setdefault("cursor_secret", secrets.token_urlsafe(32))
    return Config(**values)


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
        default = "required" if _is_required(one) else _shown(one.default)
        rows.append(f"| `{one.name.upper()}` | {variable.meaning} | {default} |")
    return "\n".join(rows)


def _shown(default: Any) -> str:
    """Return a default as it would be written into the environment."""
    if isinstance(default, timedelta):
        return str(int(default.total_seconds()))
    if isinstance(default, bool):
        return str(int(default))
    return "" if default is None else str(default)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
