"""Creation of the parts of a process from its configuration."""

import logging
from time import monotonic, sleep
from typing import Any, cast

import psycopg
import sqlalchemy.exc
from sqlalchemy import Engine, event

from app.config import Config
from app.database import WORKER_ROLE, make_engine, make_lock_engine, verify_database
from app.database_connections import ANSWER_TIMEOUT_SECONDS
from app.metrics.job_counters import JobCounters, QueueCounters
from integrations.client_documents import ClientDocuments
from integrations.github import GitHub, GitHubSettings, graphql_url_of
from integrations.mail.smtp import MailServer
from integrations.outgoing_webhooks import WebhookClient
from integrations.slack import Slack, SlackSettings
from integrations.stripe import Stripe, StripeSettings
from integrations.wakeups import RedisWakeups, WakeupWatch
from jobs.context import Context
from jobs.loop_watch import LoopWatch
from jobs.sweep import Sweeper
from rules.access.access_tokens import AccessTokenSettings
from rules.access.redirect_uris import is_loopback
from rules.access.sign_up import SignUpPolicy
from rules.billing.settings import BillingSettings
from rules.freezes.limits import FreezeLimits
from rules.rate_budget import GitHubLimits
from rules.retention import Retention
from rules.web_addresses import WebOrigin
from services.core.clock import DatabaseClock
from services.core.lease_holder import Heartbeat, HolderLock, worker_runs
from services.core.password_hashing import PasswordHasher
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret, SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.reconcile.reconciler import Reconciler
from services.restores.restores import notice_restore

logger = logging.getLogger(__name__)

DATABASE_RETRY_SECONDS = 1.0
REPORT_INTERVAL_SECONDS = 60.0
STATEMENT_SECONDS = int(ANSWER_TIMEOUT_SECONDS) + 1
"""After so long a statement has failed, for want of an answer."""
WORKER_CONNECTIONS = 8
"""Of a worker: its job, background threads, and the three threads of the sweep."""


def github_of(config: Config) -> GitHub | None:
    """Return the client of GitHub, or None if no App is configured."""
    if config.github_app_id is None or config.private_key is None:
        return None
    return GitHub(
        GitHubSettings(
            api_url=config.github_api_url,
            graphql_url=config.github_graphql_url or graphql_url_of(config.github_api_url),
            app_id=config.github_app_id,
            app_slug=config.github_app_slug or "",
            private_key=config.private_key,
            webhook_secret=config.github_webhook_secret or "",
            previous_webhook_secret=config.github_webhook_secret_previous or "",
            client_id=config.github_client_id,
            client_secret=config.github_client_secret,
            app_client_id=config.github_app_client_id,
            app_client_secret=config.github_app_client_secret,
            web_url=config.github_web_url,
        )
    )


def mail_server_of(config: Config) -> MailServer | None:
    """Return the mail server, or None if none is configured."""
    return MailServer(config.smtp_url, config.mail_from) if config.smtp_url and config.mail_from else None


def stripe_of(config: Config) -> Stripe | None:
    """Return the client of Stripe, or None if no key is configured."""
    if config.stripe_secret_key is None:
        return None
    return Stripe(
        StripeSettings(
            config.stripe_secret_key,
            config.stripe_webhook_secret,
            config.stripe_api_url,
            config.stripe_portal_configuration,
            automatic_tax=config.stripe_automatic_tax,
        )
    )


def slack_of(config: Config) -> Slack | None:
    """Return the client of Slack, or None if no app is configured."""
    if config.slack_client_id is None or config.slack_client_secret is None:
        return None
    return Slack(
        SlackSettings(
            config.slack_client_id,
            config.slack_client_secret,
            config.slack_signing_secret,
            config.slack_command,
            config.slack_url,
        )
    )


def ports_of(
    config: Config,
    password_hasher: PasswordHasher | None = None,
    client_documents: ClientDocuments | None = None,
) -> Ports:
    """Return what the process is configured with."""
    return Ports(
        github_of(config),
        mail_server_of(config),
        slack_of(config),
        stripe_of(config),
        WebhookClient(loopback=is_loopback(config.web_url)),
        client_documents or ClientDocuments(loopback=is_loopback(config.web_url)),
        password_hasher or PasswordHasher(),
        WebOrigin(config.web_url),
        SecretKey(config.secret_key.encode(), _encoded(config.secret_key_previous)),
        CursorSecret(config.cursor_secret.encode(), _encoded(config.cursor_secret_previous)),
        AccessTokenSettings(config.issuer, config.base_url, config.session_jwt_ttl),
        SignUpPolicy(cast(Any, config.sign_up), config.sign_up_domains),
        BillingSettings(config.default_plan, config.billing_grace_days),
        FreezeLimits(config.max_targets),
        Retention(config.delivery_retention_days, config.message_retention_days, config.session_retention_days),
        GitHubLimits(
            cast(Any, config.github_content_limit),
            config.github_content_per_minute,
            config.github_content_per_hour,
            config.github_points_per_minute,
            ruleset_delay=config.github_ruleset_delay,
        ),
    )


def _encoded(secret: str | None) -> bytes | None:
    return None if secret is None else secret.encode()


def await_database(database_url: str, role: str) -> None:
    """Return as soon as the database can be used as this role; log once a minute what is missing."""
    reported, reported_at = "", 0.0
    while True:
        try:
            verify_database(database_url, role)
        except psycopg.OperationalError as error:
            reason = str(error).partition("\n")[0]
            if reason != reported or monotonic() - reported_at >= REPORT_INTERVAL_SECONDS:
                logger.warning("waiting for the database: %s", reason)
                reported, reported_at = reason, monotonic()
            sleep(DATABASE_RETRY_SECONDS)
        else:
            return


def take_lock(lock: HolderLock) -> Heartbeat:
    """Take the lock that shows that this process is alive, and start its heartbeat.

    Raise PooledConnectionError if a pooler shares the session. If PostgreSQL became unavailable, the lock is taken with
    the first heartbeat instead.
    """
    try:
        lock.take()
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("PostgreSQL is not available yet: %s", error.orig)
    return Heartbeat(lock)


def report_restore(uow_factory: UnitOfWorkFactory, config: Config) -> None:
    """Log whether the database counts as restored, so that nothing is released; the sweep compares again."""
    try:
        if notice_restore(uow_factory, synchronous_standbys=config.synchronous_standbys):
            logger.warning("the database was restored: nothing is released at GitHub (`python -m app restore`)")
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("PostgreSQL is not available yet: %s", error.orig)


def lock_of(config: Config) -> HolderLock:
    """Return the lock of a worker, which is not taken yet."""
    return HolderLock(make_lock_engine(config.database_direct_url))


def job_context(config: Config, lock: HolderLock) -> Context:
    """Return the context of the jobs of a worker. Raise ValueError without a GitHub App."""
    ports = ports_of(config).having(lock, QueueCounters())
    github = ports.find(GitHub)
    if github is None:
        raise ValueError("GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY are required by workers")
    wakeups = RedisWakeups(config.redis_url)
    engine = make_engine(config.database_url, WORKER_CONNECTIONS, role=WORKER_ROLE)
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), wakeups, ports)
    reconciler = Reconciler(uow_factory, github, config.web_url)
    watch = LoopWatch()
    watch_statements(watch, engine)
    return Context(uow_factory, github, reconciler, wakeups.started, JobCounters(), watch)


def make_sweeper(config: Config, context: Context, watch: WakeupWatch) -> Sweeper:
    """Return what runs the tasks of the sweep in this process."""

    def workers_available() -> bool:
        with context.uow_factory.open(SYSTEM_CALLER) as uow:
            return worker_runs(uow.session) and watch.workers_available()

    return Sweeper(context, workers_available, config.full_pass_every, config.synchronous_standbys)


def watch_statements(watch: LoopWatch, engine: Engine) -> None:
    """Have each statement be a turn of the loop that sends it; one may take as long as PostgreSQL has to answer."""
    for before in ("before_cursor_execute", "commit"):
        event.listen(engine, before, lambda *_: watch.turn(within=STATEMENT_SECONDS))
    event.listen(engine, "after_cursor_execute", lambda *_: watch.turn())
