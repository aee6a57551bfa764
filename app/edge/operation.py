"""One operation of the contract, compiled once: the steps that every request takes, in their order."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from app.edge.answers import ResponseBuilder, make_conditional
from app.edge.auth import Authorizer, Credentials, Identity
from app.edge.bodies import JSON, BodyReader, read_bytes
from app.edge.errors import ErrorMapper
from app.edge.exchange import Headers, Reply, RequestContext
from app.edge.idempotency import Claim, once, read_claim
from app.edge.maintenance import Maintenance
from app.edge.parameters import ParameterReader
from app.edge.preconditions import require_entitlement, require_installation
from app.edge.rate_limits import RateLimits, refuse_when_spent
from app.edge.retries import retry_on_serialization_failure
from app.edge.validation_errors import Violation, refuse
from app.edge.worker_threads import Workers
from rules.access.permissions import CODE_HOST, NOBODY
from rules.errors import ServiceError
from schemas.build import Builder
from schemas.contract import Contract, ContractError, Operation, Realm
from schemas.dialect import Validators
from services.core.read_context import Downloads, Probe, ReadContext, Reader
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory

LONGEST_CLIENT = 300


@dataclass(frozen=True, slots=True)
class Edge:
    """What every operation of one application shares."""

    contract: Contract
    errors: ErrorMapper
    maintenance: Maintenance
    credentials: Credentials
    rate_limits: RateLimits
    workers: Mapping[Realm, Workers]
    uow_factory: Mapping[Realm, UnitOfWorkFactory]
    """By the realm of an operation: whose rows its unit sees, and which threads it runs in."""
    reader: Reader
    downloads: Downloads
    validators: Validators
    builder: Builder
    check_replies: bool
    probes: dict[str, Probe] = field(default_factory=dict)


class CompiledOperation:
    """Answers the requests of one operation by its handler."""

    def __init__(self, edge: Edge, operation: Operation, handler: Callable[..., Any]) -> None:
        self.operation = operation
        self._edge = edge
        self._handler = handler
        self._asynchronous = inspect.iscoroutinefunction(handler)
        if self._asynchronous and (operation.effect == "write" or operation.installation_required):
            raise ContractError(f"{operation.id}: a handler that writes or needs the installation has to have a unit")
        wanted = inspect.signature(handler).parameters
        self._takes_raw_body = "raw_body" in wanted
        self._takes_headers = "headers" in wanted
        self._takes_body = "body" in wanted
        self._parameters = ParameterReader(edge.contract, edge.validators, operation, wanted)
        reads_json = JSON in operation.body and not self._takes_raw_body
        self._body = BodyReader(edge.contract, edge.validators, operation) if reads_json else None
        self._answers = ResponseBuilder(operation, edge.builder, edge.validators if edge.check_replies else None)
        self._authorizer = Authorizer(operation)
        self._signs_in = operation.accepts("SessionToken")
        self._credentialled = operation.accepts("ApiKey") or operation.accepts("Session") or self._signs_in
        self._writes = operation.effect == "write"

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG002 - ASGI's signature
        """Answer one request: `scope["exchange"]` gets the reply, or the exception says why there is none."""
        exchange: RequestContext = scope["exchange"]
        exchange.operation_id = self.operation.id
        if self.operation.security or self.operation.realm == "identity":
            self._edge.maintenance.refuse()
        identity = await self._identify(exchange) if self._credentialled else None
        if identity is not None:
            self._authorizer.check(identity)
        arguments, sent = await self._read(exchange)
        if identity is not None:
            require_entitlement(identity.principal.plan, self.operation)
        if self._asynchronous:
            reply = self._answers.reply(await self._handler(self._context(exchange, identity), **arguments))
        else:
            claim = read_claim(exchange, sent) if self._writes and identity else None
            workers = self._edge.workers[self.operation.realm]
            reply = await workers.run(lambda: self._perform(exchange, identity, arguments, claim))
        exchange.reply = make_conditional(reply, exchange) if self.operation.conditional else reply

    async def _identify(self, exchange: RequestContext) -> Identity:
        """Tell who asks, and count the request."""
        credentials = self._edge.credentials
        if self._signs_in:
            identity = await credentials.identify_sign_in(exchange.header, write=self._writes)
        else:
            identity = await credentials.identify(exchange.header(b"authorization"))
        exchange.principal = identity.principal
        exchange.budget = await self._edge.rate_limits.count(identity.principal, write=self._writes)
        refuse_when_spent(exchange.budget)
        return identity

    async def _read(self, exchange: RequestContext) -> tuple[dict[str, Any], Any]:
        """Return the handler's arguments, and the body as it was sent; refuses all faults at once."""
        faults: list[Violation] = []
        arguments = self._parameters.read(exchange, faults)
        sent: Any = None
        if self._body is not None:
            body, sent = await self._body.read(exchange, faults)
            if self._takes_body:
                arguments["body"] = body
        elif self._takes_raw_body:
            arguments["raw_body"] = await read_bytes(exchange, self.operation.body_limit)
        if faults:
            refuse(faults)
        if self._takes_headers:
            arguments["headers"] = Headers(exchange.scope["headers"])
        return arguments, sent

    def _context(self, exchange: RequestContext, identity: Identity | None) -> ReadContext:
        edge = self._edge
        now = identity.now if identity else datetime.now(UTC)
        principal = identity.principal if identity else None
        headers = Headers(exchange.scope["headers"])
        return ReadContext(edge.reader, edge.downloads, principal, now, headers, edge.probes)

    def _perform(
        self, exchange: RequestContext, identity: Identity | None, arguments: dict[str, Any], claim: Claim | None
    ) -> Reply:
        """Run the handler in a unit, in a worker thread; what PostgreSQL undid is done again."""
        return retry_on_serialization_failure(lambda: self._in_unit(exchange, identity, arguments, claim))

    def _in_unit(
        self, exchange: RequestContext, identity: Identity | None, arguments: dict[str, Any], claim: Claim | None
    ) -> Reply:
        support = identity is not None and identity.principal.support
        uow_factory = self._edge.uow_factory[self.operation.realm]
        with uow_factory.open(_caller(exchange, identity, self.operation.realm), read_only=support) as uow:
            if self.operation.installation_required:
                require_installation(uow)
            if claim is None:
                return self._answer_or_refuse(uow, exchange, arguments)
            return once(uow, claim, exchange, self._edge.errors, lambda: self._answer(uow, arguments))

    def _answer_or_refuse(self, uow: UnitOfWork, exchange: RequestContext, arguments: dict[str, Any]) -> Reply:
        """Answer; a refusal whose effects stay is an answer too, since an exception would undo them."""
        try:
            return self._answer(uow, arguments)
        except ServiceError as error:
            if not error.effects_stay:
                raise
            return self._edge.errors.reply(error, exchange)

    def _answer(self, uow: UnitOfWork, arguments: dict[str, Any]) -> Reply:
        return self._answers.reply(self._handler(uow, **arguments))


def _caller(exchange: RequestContext, identity: Identity | None, realm: Realm) -> Caller:
    client = exchange.scope.get("client")
    anybody = Caller(
        None,
        NOBODY if realm == "identity" else CODE_HOST,
        "dashboard" if realm == "identity" else "code_host",
        request_id=exchange.request_id,
        address=client[0] if client else "",
        client=(exchange.header(b"user-agent") or b"").decode("latin-1")[:LONGEST_CLIENT],
    )
    if identity is None:
        return anybody
    principal = identity.principal
    return replace(
        anybody,
        organization_id=principal.organization_id,
        actor=principal.actor,
        source=principal.source,
        plan=principal.plan,
        principal_id=principal.id,
        session_id=principal.session_id,
    )
