"""Configuration: typed, read from the environment, validated at the start with all errors listed.

`python -m app.configuration_table` prints the table of variables.
"""

import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from app import variable_parsers as parse
from rules.access.sign_up import MODES
from rules.billing.plans import FREE, PLANS

logger = logging.getLogger(__name__)


class ConfigurationError(Exception):
    """The environment is invalid; the message has a line for each error."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The description of an environment variable, and the parser of its text."""

    description: str
    parse: Callable[[str], Any] = str


_HTTP = parse.url("http", "https")
_REDIS = parse.url("redis", "rediss", "unix")
_LOCAL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a process; the variable of a field is its name in capitals."""

    database_url: Annotated[
        str,
        Variable(
            "PostgreSQL, as a login that owns nothing and may take the three roles of the service", parse.database_url
        ),
    ] = field(repr=False)
    database_direct_url: Annotated[
        str,
        Variable(
            "PostgreSQL without a connection pooler, for workers (default: DATABASE_URL)",
            parse.database_url,
        ),
    ] = field(default="", repr=False)
    redis_url: Annotated[str, Variable("Redis, for wake-ups and rate limits", _REDIS)] = field(repr=False)
    secret_key: Annotated[
        str,
        Variable(
            "Encrypts secrets in the database (signing keys, mails, stored responses); the same on all machines",
            parse.secret,
        ),
    ] = field(repr=False)
    secret_key_previous: Annotated[
        str | None,
        Variable("While SECRET_KEY is replaced: the other key, under which secrets can be read too", parse.secret),
    ] = field(default=None, repr=False)
    base_url: Annotated[str, Variable("Public URL of this API", _HTTP)] = _LOCAL
    web_url: Annotated[str, Variable("Origin of the web pages, where users sign in", parse.web_origin)] = _LOCAL
    docs_url: Annotated[str, Variable("URL of the reference; errors link to its /errors", _HTTP)] = _LOCAL + "/docs"
    status_url: Annotated[str, Variable("URL of the status page, given during maintenance", _HTTP)] = _LOCAL + "/status"
    github_api_url: Annotated[str, Variable("URL of GitHub's REST API", _HTTP)] = "https://api.github.com"
    github_graphql_url: Annotated[
        str | None, Variable("URL of GitHub's GraphQL API (default: derived from the REST URL)", _HTTP)
    ] = None
    github_app_id: Annotated[int | None, Variable("Id of the GitHub App", parse.number(1, 2**53))] = None
    github_app_slug: Annotated[str | None, Variable("Slug of the GitHub App")] = None
    github_app_private_key: Annotated[str | None, Variable("Private key of the GitHub App, PEM", parse.private_key)] = (
        field(default=None, repr=False)
    )
    github_app_private_key_file: Annotated[
        Path | None, Variable("File with the private key, instead", parse.private_key_file)
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
    github_webhook_secret_previous: Annotated[
        str | None, Variable("While the webhook secret is replaced: the previous one, accepted too")
    ] = field(default=None, repr=False)
    github_content_limit: Annotated[
        str,
        Variable(
            "How checks count towards GitHub's content limit: learn (from rate-limit errors), off, requests, aliases",
            parse.one_of("learn", "off", "requests", "aliases"),
        ),
    ] = "learn"
    github_content_per_minute: Annotated[int, Variable("GitHub's content limit per minute", parse.number(1, 10**6))] = (
        80
    )
    github_content_per_hour: Annotated[int, Variable("GitHub's content limit per hour", parse.number(1, 10**7))] = 500
    github_points_per_minute: Annotated[
        int,
        Variable(
            "Rate-limit points that jobs may use per minute, half of them reserved for verdicts; GitHub allows 2000",
            parse.number(10, 10**6),
        ),
    ] = 1800
    github_ruleset_delay: Annotated[
        timedelta,
        Variable(
            "Seconds that GitHub may take to enforce a changed ruleset: a stop counts from then on",
            parse.seconds(0, 60),
        ),
    ] = timedelta(seconds=20)
    cursor_secret: Annotated[
        str, Variable("Signs cursors; the same on all machines (default: random at each start)", parse.secret)
    ] = field(default="", repr=False)
    cursor_secret_previous: Annotated[
        str | None, Variable("While CURSOR_SECRET is replaced: the other one, accepted too", parse.secret)
    ] = field(default=None, repr=False)
    sign_up: Annotated[
        str,
        Variable(
            "Who may create an account: everybody (open), people who were invited (invitation), or these and people "
            "with an address at SIGN_UP_DOMAINS (domain)",
            parse.one_of(*MODES),
        ),
    ] = "open"
    sign_up_domains: Annotated[
        tuple[str, ...],
        Variable("Domains of e-mail addresses, separated by commas; subdomains are not included", parse.domains),
    ] = ()
    smtp_url: Annotated[
        str | None,
        Variable(
            "Mail server: smtp+starttls, smtps, or unencrypted smtp; without one, mails stay queued", parse.mail_server
        ),
    ] = field(default=None, repr=False)
    mail_from: Annotated[
        str | None,
        Variable(
            "Sender of mails, such as Freezes <freezes@example.com> (default name: Change-Freeze Service)", parse.sender
        ),
    ] = None
    session_issuer: Annotated[str | None, Variable("Issuer of access tokens (default: WEB_URL)")] = None
    session_jwt_ttl: Annotated[timedelta, Variable("Lifetime of access tokens in seconds", parse.seconds(1, 86400))] = (
        timedelta(minutes=15)
    )
    rate_limit_organization: Annotated[
        int, Variable("Requests per minute of an organisation", parse.number(1, 10**9))
    ] = 6000
    rate_limit_writes: Annotated[int, Variable("Writes per minute of one credential", parse.number(1, 10**9))] = 600
    default_plan: Annotated[
        str, Variable("Plan that organisations have at least, unless an operator grants another", parse.one_of(*PLANS))
    ] = FREE.id
    stripe_secret_key: Annotated[
        str | None,
        Variable("Key of Stripe's API, best a restricted one; without it, nothing can be bought", parse.secret),
    ] = field(default=None, repr=False)
    stripe_webhook_secret: Annotated[
        tuple[str, ...],
        Variable(
            "Signing secret of Stripe's webhook endpoint; two, separated by a comma, while one replaces the other",
            parse.signing_secrets,
        ),
    ] = field(default=(), repr=False)
    stripe_api_url: Annotated[str, Variable("URL of Stripe's API", _HTTP)] = "https://api.stripe.com"
    stripe_portal_configuration: Annotated[
        str | None, Variable("Id of the customer portal's configuration (default: that of the Stripe account)")
    ] = None
    stripe_automatic_tax: Annotated[bool, Variable("Let Stripe compute taxes at checkout (1 or 0)", parse.switch)] = (
        False
    )
    billing_grace_days: Annotated[
        timedelta, Variable("Days for which a plan goes on after a failed payment", parse.days(0, 90))
    ] = timedelta(days=14)
    slack_client_id: Annotated[str | None, Variable("Client id of the Slack app; without it, Slack is off")] = None
    slack_client_secret: Annotated[str | None, Variable("Client secret of the Slack app", parse.secret)] = field(
        default=None, repr=False
    )
    slack_signing_secret: Annotated[
        tuple[str, ...],
        Variable(
            "Signing secret of the Slack app; two, separated by a comma, while one replaces the other",
            parse.signing_secrets,
        ),
    ] = field(default=(), repr=False)
    slack_command: Annotated[str, Variable("Slash command of the Slack app", parse.slash_command)] = "/freeze"
    slack_url: Annotated[str, Variable("Origin of Slack", parse.web_origin)] = "https://slack.com"
    max_targets: Annotated[int, Variable("Branches that one freeze request may cover", parse.number(1, 10**6))] = 10_000
    delivery_retention_days: Annotated[
        timedelta, Variable("Days for which webhooks of GitHub are kept", parse.days(4, 400))
    ] = timedelta(days=7)
    message_retention_days: Annotated[
        timedelta, Variable("Days for which mails, Slack messages and outgoing webhooks are kept", parse.days(30, 400))
    ] = timedelta(days=30)
    session_retention_days: Annotated[
        timedelta, Variable("Days for which sessions and connections are kept after their end", parse.days(1, 400))
    ] = timedelta(days=30)
    validate_responses: Annotated[
        bool, Variable("Validate all responses against the contract (1 or 0)", parse.switch)
    ] = False
    maintenance_file: Annotated[Path | None, Variable("While this file exists, requests get 503 maintenance", Path)] = (
        None
    )
    database_pool_size: Annotated[int, Variable("Database connections of one API process", parse.number(1, 500))] = 8
    max_connections: Annotated[
        int,
        Variable(
            "Open connections of clients to one API process; each takes a file (`ulimit -n`)", parse.number(10, 10**6)
        ),
    ] = 800
    sweep_every: Annotated[timedelta, Variable("Seconds between two sweeps for due work", parse.seconds(1, 3600))] = (
        timedelta(seconds=2)
    )
    synchronous_standbys: Annotated[
        bool,
        Variable("Whether a fail-over of PostgreSQL loses no commit, and needs no confirming (1 or 0)", parse.switch),
    ] = False
    full_pass_every: Annotated[
        timedelta,
        Variable(
            "Seconds from one round of the resync with GitHub to the next; rounds of large installations take longer",
            parse.seconds(1, 86400),
        ),
    ] = timedelta(minutes=5)
    metrics_bind: Annotated[
        tuple[str, int] | None,
        Variable(
            "Address (host:port) of this process's metrics, only for the operators' network, and not that of another "
            "process (default: none; the API shows its metrics at /metrics)",
            parse.tcp_address,
        ),
    ] = None
    log_level: Annotated[str, Variable("Minimum level of log lines", parse.level)] = "INFO"
    otel_exporter_otlp_endpoint: Annotated[
        str | None,
        Variable("OpenTelemetry collector that gets traces, by OTLP over HTTP; `/v1/traces` is added", parse.collector),
    ] = None
    otel_exporter_otlp_traces_endpoint: Annotated[
        str | None, Variable("The same with its whole path, instead", parse.collector)
    ] = None
    sentry_dsn: Annotated[str | None, Variable("Project at Sentry that gets errors", parse.sentry_dsn)] = field(
        default=None, repr=False
    )

    @property
    def issuer(self) -> str:
        """The issuer of access tokens."""
        return self.session_issuer or self.web_url

    @property
    def collector(self) -> str | None:
        """The address to which spans are sent."""
        if self.otel_exporter_otlp_traces_endpoint or self.otel_exporter_otlp_endpoint is None:
            return self.otel_exporter_otlp_traces_endpoint
        return f"{self.otel_exporter_otlp_endpoint}/v1/traces"

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
    ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"),
    ("SLACK_CLIENT_ID", "SLACK_SIGNING_SECRET"),
    ("SLACK_CLIENT_SECRET", "SLACK_CLIENT_ID"),
    ("SLACK_SIGNING_SECRET", "SLACK_CLIENT_ID"),
    ("GITHUB_WEBHOOK_SECRET_PREVIOUS", "GITHUB_WEBHOOK_SECRET"),
    ("CURSOR_SECRET_PREVIOUS", "CURSOR_SECRET"),
)
"""Variables that require another one."""


OTHER_VARIABLES = {
    "DATABASE_OWNER_URL": (
        Variable("PostgreSQL as the owner of the schema, only for `python -m app migrate`", parse.database_url),
        "DATABASE_URL",
    ),
    "BIND": (
        Variable("Address on which the API listens: host:port, or unix:path", parse.listening_address),
        "127.0.0.1 and PORT",
    ),
    "PORT": (Variable("Port on which the API listens on 127.0.0.1", parse.number(1, parse.MAX_PORT)), "8080"),
    "WEB_CONCURRENCY": (Variable("Processes of the API", parse.number(1, 1000)), "one for each core, at least 2"),
    "OTEL_TRACES_SAMPLER": (Variable("Which traces are recorded"), "parentbased_always_on"),
    "OTEL_TRACES_SAMPLER_ARG": (Variable("The ratio of the sampler parentbased_traceidratio, 0 to 1"), "1"),
    "OTEL_SERVICE_NAME": (Variable("Name of the process in traces"), "change-freeze-api, -worker"),
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
    for setting, variable in variables():
        name = setting.name.upper()
        text = environment.get(name, "").strip()
        if not text:
            if is_required(setting):
                errors.append(f"{name} is required: {variable.description}")
            continue
        try:
            values[setting.name] = variable.parse(text)
        except ValueError as error:
            errors.append(f"{name} {error}")
    if (values.get("sign_up") == "domain") != ("sign_up_domains" in values) and not errors:
        errors.append("SIGN_UP_DOMAINS is required if SIGN_UP is domain, and is for nothing else")
    for name, other in _REQUIRED_WITH:
        if name.lower() in values and not environment.get(other, "").strip():
            errors.append(f"{other} is required if {name} is set")
    errors += [
        f"{name.upper()}_PREVIOUS must not be {name.upper()}"
        for name in ("secret_key", "github_webhook_secret", "cursor_secret")
        if name in values and values[name] == values.get(f"{name}_previous")
    ]
    if errors:
        raise ConfigurationError("\n".join(errors))
    values.setdefault("database_direct_url", values["database_url"])
    values.setdefault("cursor_secret", secrets.token_urlsafe(32))
    return Config(**values)


def check_other_variables(environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError with a line for each invalid variable that is not part of the configuration."""
    errors = []
    for name, (variable, _) in OTHER_VARIABLES.items():
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
    ours = [*(setting.name.upper() for setting, _ in variables()), *OTHER_VARIABLES]
    found = []
    for name in sorted(name for name in set(environment) - set(ours) if not name.startswith("OTEL_")):
        similar = get_close_matches(name.upper(), ours, n=1, cutoff=_SIMILARITY)
        found += [(name, similar[0])] if similar else []
    return found


def variables() -> Iterator[tuple[Field[Any], Variable]]:
    """Yield the fields of the configuration, each with its variable."""
    hints = get_type_hints(Config, include_extras=True)
    for setting in fields(Config):
        yield setting, hints[setting.name].__metadata__[0]


def is_required(setting: Field[Any]) -> bool:
    """True if a field has no default."""
    return setting.default is MISSING
