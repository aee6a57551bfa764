"""`python -m app doctor`: check the configuration and everything that it names.

It prints a line for each check: that it is well, or what to do. It writes nothing, here or at another server.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import psycopg
import redis
import sqlalchemy.exc
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.commands.command_line import first_line, parser_of
from app.commands.units_of_work import units_of_work
from app.config import Config, ConfigurationError, check_other_variables, load_config
from app.database import ROLES, WORKER_ROLE, make_engine, make_lock_engine, verify_database
from app.database_connections import ANSWER_TIMEOUT_SECONDS, RELEASE_REVISION, libpq_address, open_connection
from app.wiring import github_of, mail_server_of, slack_of, stripe_of
from integrations.github import GitHub, GitHubError
from integrations.github.users import UserAuthorization
from integrations.mail.smtp import MailError
from integrations.slack.errors import SlackError
from integrations.stripe.errors import StripeError
from integrations.wakeups import connect
from rules.rulesets.app_permissions import EVENTS, EVENTS_FOR_RULES, missing_permissions
from rules.web_addresses import GITHUB_WEBHOOKS
from services.core.database_identity import is_confirmed
from services.core.lease_holder import RUNNING_KINDS, PooledConnectionError, require_direct_connection
from services.core.unit_of_work import SYSTEM_CALLER
from services.maintenance import secret_rotation
from services.verdicts.lasting_stops import PLACES, by_hand

_LOGIN: LiteralString = """
    SELECT r.rolname::text, r.rolsuper, r.rolbypassrls, r.rolcreaterole OR r.rolcreatedb,
           EXISTS (SELECT FROM pg_class c
                   WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
                     AND NOT r.rolsuper AND pg_has_role(r.oid, c.relowner, 'MEMBER'))
    FROM pg_roles r WHERE r.rolname = session_user
"""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=5)
_EPILOG = """\
Run it where the service runs, with the same environment. A line begins with `ok`, with `fix` and what to do, or with
`off` for what is not configured. It ends with 1 if something is to be fixed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    state: str
    """`ok`, `fix` or `off`."""
    text: str


def ok(text: str) -> Finding:
    """Return that all is well."""
    return Finding("ok", text)


def fix(text: str) -> Finding:
    """Return what is wrong and what to do."""
    return Finding("fix", text)


def off(text: str) -> Finding:
    """Return what is not configured, and what that means."""
    return Finding("off", text)


def check_schema(config: Config) -> Finding:
    """Check that the login may take the roles of the service, and that the schema is that of the release."""
    for role in ROLES:
        try:
            verify_database(config.database_url, role)
        except psycopg.OperationalError as error:
            return fix(f"{first_line(error)} (DATABASE_URL)")
    return ok(f"the schema is at revision {RELEASE_REVISION}, which is that of the release")


def check_database(config: Config) -> Iterator[Finding]:
    """Check the login, its rights, the schema, the clock, and the connection of workers."""
    schema = check_schema(config)
    if schema.state != "ok":
        yield schema
        return
    yield from _check_login(config)
    yield schema
    direct = make_lock_engine(config.database_direct_url)
    try:
        require_direct_connection(direct)
    except PooledConnectionError as error:
        yield fix(f"{error} (DATABASE_DIRECT_URL)")
    except sqlalchemy.exc.OperationalError as error:
        yield fix(f"{first_line(error.orig)} (DATABASE_DIRECT_URL)")
    else:
        yield ok("workers have a connection of their own")
    engine = make_engine(config.database_url, 1, role=WORKER_ROLE)
    try:
        with engine.connect() as connection:
            now = connection.scalars(text("SELECT clock_timestamp()")).one()
            running = {row.kind: row.runs for row in connection.execute(text(RUNNING_KINDS))}
        yield check_identity(engine)
    finally:
        engine.dispose()
    difference = abs(now - datetime.now(UTC))
    if difference > MAX_CLOCK_DIFFERENCE:
        yield fix(f"the clocks of this machine and of PostgreSQL differ by {difference.total_seconds():.0f} s: run NTP")
    else:
        yield ok("the clocks of this machine and of PostgreSQL agree")
    yield ok("a worker runs") if running.get("worker") else fix("no worker runs: start `python -m app worker`")
    if running.get("worker"):
        yield ok("workers sweep") if running.get("sweeper") else fix("no worker sweeps: see the logs of the workers")


def _check_login(config: Config) -> Iterator[Finding]:
    """Check what the login may do by itself, and whether a connection pooler is in between."""
    address = libpq_address(config.database_url)
    with open_connection(address, WORKER_ROLE, ANSWER_TIMEOUT_SECONDS, conninfo=address) as connection:
        name, *rights = connection.execute(_LOGIN).fetchone() or ("",)
        is_pooled = connection.prepare_threshold is None
    if any(rights):
        names = ("is a superuser", "bypasses row-level security", "may create roles or databases", "owns tables")
        found = ", ".join(words for words, has_it in zip(names, rights, strict=True) if has_it)
        yield fix(
            f"the login {name} {found}: use one that owns nothing, as in deploy/postgres/roles.sql (DATABASE_URL)"
        )
    else:
        yield ok(f"the login {name} owns nothing, and may take the roles of the service")
    yield ok("a connection pooler is used: nothing is prepared" if is_pooled else "PostgreSQL is reached directly")


def check_identity(engine: Engine) -> Finding:
    """Check that the database runs where it did, so that the service releases what it says."""
    try:
        with Session(engine) as session:
            confirmed = is_confirmed(session)
    except sqlalchemy.exc.ProgrammingError as error:
        return fix(f"restores cannot be noticed ({first_line(error.orig)}): grant EXECUTE to change_freeze_worker")
    if not confirmed:
        return fix("the database was restored, and nothing is released at GitHub: run `python -m app restore show`")
    return ok("the database runs where it last ran, or its restore is confirmed")


def check_secrets(config: Config) -> Iterator[Finding]:
    """Check that what the database has encrypted can be read, and whether it needs the previous key."""
    try:
        with units_of_work(config, WORKER_ROLE) as uow_factory:
            found = secret_rotation.survey(uow_factory)
    except sqlalchemy.exc.SQLAlchemyError:
        yield off("not checked, because the database cannot be used")
        return
    unreadable = [f"{count.unreadable} {count.column.name}" for count in found.counts if count.unreadable]
    if unreadable:
        yield fix(
            f"{', '.join(unreadable)} can be read with no key: set SECRET_KEY_PREVIOUS to the key of before, "
            "and run `python -m app rotate-secrets`"
        )
    elif config.secret_key_previous is None:
        yield ok("everything that is encrypted can be read")
    if config.secret_key_previous is not None:
        yield _previous_key(found)


def _previous_key(found: secret_rotation.SecretSurvey) -> Finding:
    """Return whether SECRET_KEY_PREVIOUS can be removed."""
    needed = [f"{count.previous} {count.column.name}" for count in found.counts if count.previous]
    needed += ["the key of used trials"] if found.keys_to_keep else []
    if needed:
        return fix(f"SECRET_KEY_PREVIOUS is needed for {', '.join(needed)}: run `python -m app rotate-secrets`")
    if found.replies_until is None:
        return ok("nothing needs SECRET_KEY_PREVIOUS: remove it")
    return ok(
        "nothing needs SECRET_KEY_PREVIOUS but responses that may be repeated for an hour: remove it one hour after "
        "the last process got the new key"
    )


def check_stops(config: Config) -> Iterator[Finding]:
    """Check that every stop that is not needed has ended, and that people have ended none that is."""
    try:
        with units_of_work(config, WORKER_ROLE) as uow_factory, uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
            lasting = [(name, of.level) for of in PLACES for name in of.find(uow, of.lasting)]
            refused = [name for of in PLACES for name in of.find(uow, of.refused)]
    except sqlalchemy.exc.SQLAlchemyError:
        yield off("not checked, because the database cannot be used")
        return
    for name, level in lasting:
        yield fix(f"GitHub refuses every merge into branches of {name} by a stop that does not end. {by_hand(level)}")
    for name in refused:
        yield fix(
            f"people ended the stop of {name} at GitHub: its frozen branches are open until their checks are written. "
            "See that workers run, and that GitHub takes checks"
        )
    if not lasting and not refused:
        yield ok("no stop stays on that nothing needs, and people have ended none that is needed")


def check_redis(config: Config) -> Iterator[Finding]:
    """Check that Redis answers; without it the sweep does all the work."""
    try:
        connect(config.redis_url).ping()
    except redis.RedisError as error:
        yield fix(f"Redis cannot be used ({first_line(error)}): only the sweep finds work (REDIS_URL)")
    else:
        yield ok("Redis answers")


def check_github(config: Config) -> Iterator[Finding]:
    """Check the App's key, permissions, events and webhook address, and both OAuth clients."""
    github = github_of(config)
    if github is None:
        yield fix("no GitHub App is configured: nothing can be frozen (GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY_FILE)")
        return
    try:
        yield from _check_app(github, config)
    except GitHubError as error:
        yield fix(f"GitHub does not accept the App ({error}): check GITHUB_APP_ID and its private key")
        return
    installer, user = github.installer_authorization, github.user_authorization
    yield _check_client(installer, "the App's own client", "GITHUB_APP_CLIENT_ID", "no installation can be claimed")
    yield _check_client(user, "the OAuth App", "GITHUB_CLIENT_ID", "administrators cannot authorise rules")


def _check_app(github: GitHub, config: Config) -> Iterator[Finding]:
    app = github.app()
    yield ok(f"GitHub knows the App {app.get('slug', '')}")
    if config.github_app_slug != app.get("slug"):
        yield fix(f"GITHUB_APP_SLUG must be {app.get('slug')}")
    missing = missing_permissions(app.get("permissions", {}))
    yield fix(f"the App lacks permissions: add {', '.join(missing)}") if missing else ok("the App has its permissions")
    subscribed = set(app.get("events", ()))
    events, late = sorted(set(EVENTS) - subscribed), sorted(set(EVENTS_FOR_RULES) - subscribed)
    yield fix(f"the App misses events: subscribe to {', '.join(events)}") if events else ok("the App gets its events")
    if late:
        yield off(f"rules for exceptions notice changes late, when a branch is read: subscribe to {', '.join(late)}")
    webhook = github.webhook_settings()
    wanted = f"{config.base_url}{GITHUB_WEBHOOKS}"
    if webhook.get("url") != wanted:
        yield fix(f"the App's webhooks go to {webhook.get('url') or 'no address'}: set {wanted}")
    elif str(webhook.get("insecure_ssl", "0")) != "0":
        yield fix("the App's webhooks are sent without checking our certificate: enable SSL verification")
    else:
        yield ok(f"the App's webhooks go to {wanted}")
    if not config.github_webhook_secret:
        yield fix("webhooks are refused: set GITHUB_WEBHOOK_SECRET to the secret of the App's webhook")


def _check_client(client: UserAuthorization | None, name: str, variable: str, consequence: str) -> Finding:
    if client is None:
        return fix(f"{name} is not configured: {consequence} ({variable} and its secret)")
    try:
        client.check()
    except GitHubError as error:
        return fix(f"GitHub does not accept {name} ({error}): check {variable} and its secret")
    return ok(f"GitHub accepts {name}")


def check_mail(config: Config) -> Iterator[Finding]:
    """Check that the mail server accepts our credentials."""
    server = mail_server_of(config)
    if server is None:
        yield fix("no mail server is configured: people cannot sign up or be invited (SMTP_URL, MAIL_FROM)")
        return
    try:
        server.check()
    except MailError as error:
        yield fix(f"the mail server cannot be used ({first_line(error)}): check SMTP_URL")
    else:
        yield ok("the mail server accepts us")


def check_stripe(config: Config) -> Iterator[Finding]:
    """Check the key of Stripe by reading prices."""
    stripe = stripe_of(config)
    if stripe is None:
        yield off("Stripe: nothing can be bought (STRIPE_SECRET_KEY)")
        return
    try:
        prices = stripe.list_prices()
    except StripeError as error:
        yield fix(f"Stripe cannot be used ({first_line(error)}): check STRIPE_SECRET_KEY")
        return
    yield ok("Stripe accepts the key") if prices else fix("Stripe has no prices: run `python -m app billing setup`")


def check_slack(config: Config) -> Iterator[Finding]:
    """Check the client of the Slack app."""
    slack = slack_of(config)
    if slack is None:
        yield off("Slack: workspaces cannot be connected (SLACK_CLIENT_ID)")
        return
    try:
        slack.check()
    except SlackError as error:
        yield fix(f"Slack does not accept the app ({first_line(error)}): check SLACK_CLIENT_ID and SLACK_CLIENT_SECRET")
    else:
        yield ok("Slack accepts the app")


def check_traces(config: Config) -> Iterator[Finding]:
    """Check that the collector of traces accepts them."""
    if config.collector is None:
        yield off("traces are sent nowhere (OTEL_EXPORTER_OTLP_ENDPOINT)")
        return
    from app.tracing import collector_answers  # its packages are installed only where traces are collected

    if collector_answers(config.collector):
        yield ok("the collector accepts traces")
    else:
        yield fix("the collector does not accept traces: check OTEL_EXPORTER_OTLP_ENDPOINT, and its port for HTTP")


def check_errors(config: Config) -> Iterator[Finding]:
    """Check that Sentry accepts the project and its key."""
    if config.sentry_dsn is None:
        yield off("errors are reported nowhere (SENTRY_DSN)")
        return
    from app.error_reports import accepts_reports  # its package is installed only where errors are reported

    if accepts_reports(config.sentry_dsn):
        yield ok("Sentry accepts reports")
    else:
        yield fix("Sentry does not accept reports: check SENTRY_DSN")


CHECKS: dict[str, Callable[[Config], Iterator[Finding]]] = {
    "database": check_database,
    "secrets": check_secrets,
    "stops": check_stops,
    "redis": check_redis,
    "github": check_github,
    "mail": check_mail,
    "stripe": check_stripe,
    "slack": check_slack,
    "traces": check_traces,
    "errors": check_errors,
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser_of("doctor", "Check the configuration and everything that it names.", _EPILOG).parse_args(arguments)
    try:
        config = load_config()
        check_other_variables(os.environ)
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"fix  configuration: {line}")
        return 1
    print("ok   configuration: every variable can be read")
    to_fix = 0
    for subject, check in CHECKS.items():
        for finding in check(config):
            print(f"{finding.state:<4} {subject}: {finding.text}")
            sys.stdout.flush()
            to_fix += finding.state == "fix"
    return int(to_fix > 0)
