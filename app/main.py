"""The ASGI application, built once per process. `python -m app api` runs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psycopg
import redis.asyncio
import sqlalchemy.exc
from sqlalchemy import Engine

from app import logs
from app.config import Config, ConfigurationError, load_config
from app.database import IDENTITY_ROLE, Reads, make_engine
from app.edge import connexion_adapter, http_protocol
from app.edge.access_log import AccessLog, standard_error
from app.edge.authentication import Credentials
from app.edge.downloads import DatabaseDownloads
from app.edge.early_errors import EarlyErrors
from app.edge.errors import ErrorMapper
from app.edge.health_checks import CachedHealthCheck
from app.edge.key_uses import KeyUses
from app.edge.maintenance_mode import Maintenance
from app.edge.middleware import RequestMiddleware
from app.edge.operation import CompiledOperation, Edge
from app.edge.rate_limits import RateLimits
from app.edge.token_verification import TokenVerifier
from app.edge.worker_threads import Workers
from app.metrics.saturation import Saturation
from app.mount_mcp import mount_mcp
from app.mount_slack import mount_slack
from app.mount_web import mount_pages
from app.telemetry import telemetry
from app.wiring import ports_of
from integrations.client_documents import ClientDocuments
from integrations.github import GitHub
from integrations.mail.smtp import MailServer
from integrations.wakeups import RedisWakeups
from rules import web_addresses
from rules.web_addresses import WebOrigin
from schemas.contract import Contract, ContractError, DatabaseRole, load_contract
from schemas.dialect import Validators
from schemas.serialization import Serializers
from services.core.clock import Clock, DatabaseClock
from services.core.password_hashing import PasswordHasher
from services.core.read_context import HealthCheck
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import GITHUB_CALLER, UnitOfWorkFactory, Wakeups
from services.identity.access_tokens import verify_access_token
from services.identity.oauth.access_tokens import verify_grant_token
from services.maintenance.webhook_log import request_reading
from web.error_page import find_error_page

logger = logging.getLogger(__name__)

Application = connexion_adapter.Application

IDENTITY_CONNECTIONS = 4
"""Of one API process: sign-ins are rare, and hashing a password holds no connection."""
IDENTITY_THREADS = 32
"""Separate threads for identity operations, so that hashing passwords does not delay other requests."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that tests may replace."""

    contract: Contract | None = None
    handlers: str = "handlers"
    clock: Clock | None = None
    wakeups: Wakeups | None = None
    password_hasher: PasswordHasher | None = None
    client_documents: ClientDocuments | None = None
    access_log: bool = True
    complete: bool = True
    """True if an operation without a handler is an error at the start."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that are opened at the start of the process, and closed at its end."""

    engine: Engine
    identity_engine: Engine
    reads: Reads
    downloads: DatabaseDownloads
    key_uses: KeyUses
    redis: "redis.asyncio.Redis"
    workers: Mapping[DatabaseRole, Workers]

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        """Open the resources on the running loop, and close them in reverse order."""
        async with AsyncExitStack() as stack:
            stack.callback(self.engine.dispose)
            stack.callback(self.identity_engine.dispose)
            stack.push_async_callback(self.redis.aclose)
            stack.push_async_callback(self.downloads.close)
            stack.push_async_callback(self.reads.close)
            stack.push_async_callback(self.key_uses.close)
            for workers in self.workers.values():
                stack.callback(workers.close)
            try:
                await self.reads.verify()
            except psycopg.OperationalError as error:
                logger.warning("requests are refused until the database can be used: %s", str(error).partition("\n")[0])
            engines = (self.engine, self.identity_engine)
            await stack.enter_async_context(Saturation([*self.workers.values()], engines, self.reads).sampled())
            yield


def create_app(config: Config, parts: Parts | None = None) -> Application:
    """Return the ASGI application. Raise ContractError if contract and handlers do not match."""
    parts = parts or Parts()
    parts = replace(parts, access_log=parts.access_log and config.log_level in {"DEBUG", "INFO"})
    reads = Reads(config.database_url, config.database_pool_size)
    resources = Resources(
        engine=make_engine(config.database_url, config.database_pool_size),
        identity_engine=make_engine(config.database_url, IDENTITY_CONNECTIONS, role=IDENTITY_ROLE),
        reads=reads,
        downloads=DatabaseDownloads(config.database_url),
        key_uses=KeyUses(reads),
        redis=redis.asyncio.Redis.from_url(config.redis_url, socket_connect_timeout=0.1, max_connections=200),
        workers={
            "organization": Workers(config.database_pool_size, name="requests"),
            "identity": Workers(IDENTITY_THREADS, name="identity"),
        },
    )

    edge = make_edge(config, parts, resources)

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[None]:
        with telemetry(config, "api"):
            async with resources.lifespan(running):
                requested = asyncio.create_task(asyncio.to_thread(_request_log, edge.uow_factories["organization"]))
                yield
                await requested

    return assemble(edge, parts, lifespan, base_url=config.base_url)


def _request_log(uow_factory: UnitOfWorkFactory) -> None:
    """Have GitHub's log of webhooks read: while no API process answered, none of them arrived."""
    if uow_factory.ports.find(GitHub) is None:
        return
    try:
        with uow_factory.open(GITHUB_CALLER) as uow:
            request_reading(uow)
    except sqlalchemy.exc.SQLAlchemyError as error:  # it is read every 15 seconds in any case
        logger.warning("a reading of the log of webhooks was not requested: %s", type(error).__name__)


def make_edge(config: Config, parts: Parts, resources: Resources) -> Edge:
    """Return the parts that all operations share."""
    contract = parts.contract or load_contract()
    clock = parts.clock or DatabaseClock()
    ports = ports_of(config, parts.password_hasher, parts.client_documents)
    wakeups = parts.wakeups or RedisWakeups(config.redis_url)
    return Edge(
        contract=contract,
        errors=ErrorMapper(contract, config.docs_url, find_error_page),
        maintenance=Maintenance(config.maintenance_file, config.status_url),
        credentials=make_credentials(config, resources.reads, resources.key_uses, clock),
        rate_limits=RateLimits(
            resources.redis, organization=config.rate_limit_organization, writes=config.rate_limit_writes
        ),
        workers=resources.workers,
        uow_factories={
            "organization": UnitOfWorkFactory(resources.engine, clock, wakeups, ports),
            "identity": UnitOfWorkFactory(resources.identity_engine, clock, wakeups, ports),
        },
        reader=resources.reads,
        downloads=resources.downloads,
        validators=Validators(contract.document),
        serializers=Serializers(contract.document),
        check_replies=config.validate_responses,
        health_checks=_health_checks(resources, ports.find(GitHub), ports.find(MailServer)),
        cursor_secrets=ports[CursorSecret].accepted,
    )


def make_credentials(config: Config, reads: Reads, key_uses: KeyUses, clock: Clock) -> Credentials:
    """Return what authenticates requests."""
    verify_session = partial(verify_access_token, issuer=config.issuer, audience=config.base_url)
    verify_grant = partial(verify_grant_token, issuer=config.issuer, audience=config.base_url + web_addresses.MCP)
    return Credentials(
        reads,
        TokenVerifier(reads, verify_session),
        TokenVerifier(reads, verify_grant),
        clock,
        web_url=config.web_url,
        key_uses=key_uses,
        default_plan=config.default_plan,
    )


def _health_checks(resources: Resources, github: GitHub | None, mail: MailServer | None) -> dict[str, HealthCheck]:
    health_checks: dict[str, HealthCheck] = {"database": resources.reads.verify, "redis": resources.redis.ping}
    if github is not None:
        health_checks["code_host"] = CachedHealthCheck(github.app)
    if mail is not None:
        health_checks["mail"] = CachedHealthCheck(mail.check)
    return health_checks


def assemble(edge: Edge, parts: Parts, lifespan: connexion_adapter.Lifespan, *, base_url: str) -> Application:
    """Return the application of an edge."""
    log = AccessLog(standard_error() if parts.access_log else None)

    async def call_operation(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await application(scope, receive, send)

    mcp = mount_mcp(edge, call_operation, base_url=base_url)
    slack = mount_slack(edge, call_operation)

    @asynccontextmanager
    async def lifespan_of_all(running: Any) -> AsyncIterator[None]:
        async with lifespan(running), mcp.lifespan(), slack.lifespan():
            yield

    application: Application = connexion_adapter.build(
        edge.contract,
        parts.handlers,
        partial(CompiledOperation, replace(edge, slack=slack.receive)),
        outermost=partial(
            RequestMiddleware,
            errors=edge.errors,
            count=EarlyErrors(edge.credentials, edge.rate_limits, edge.contract.classic_prefix).count,
            log=log,
            https=edge.uow_factories["identity"].ports[WebOrigin].url.startswith("https:"),
        ),
        lifespan=lifespan_of_all,
        sites=(mcp, mount_pages(edge, call_operation, base_url=base_url)),
        complete=parts.complete,
    )
    return application


def from_environment() -> Application:
    """Return the application configured by the environment; on an error, report it and end the process."""
    try:
        config = load_config()
        logs.configure(config.log_level)
        logs.announce_start("api")
        http_protocol.LIMITS.open = config.max_connections
        return create_app(config)
    except (ConfigurationError, ContractError) as error:
        logs.report_failed_start("API", error)
        raise SystemExit(3) from error


def __getattr__(name: str) -> Application:
    """Create `app` on first access, so that importing this module requires no environment."""
    if name == "app":
        globals()["app"] = application = from_environment()
        return application
    raise AttributeError(name)
