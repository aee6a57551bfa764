"""One operation of the contract, compiled once: the steps of every request, in order."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from app.edge.answer_memory import AnswerMemory, Asked, question_of
from app.edge.authentication import Credentials, Identity
from app.edge.authorization import Authorizer, require_entitlement
from app.edge.bodies import UNVERIFIED_BODIES, BodyReader, discard_body, read_bytes, refuse_form
from app.edge.classic_requests import ClassicRequestReader, Fields, authorization_of
from app.edge.errors import PRIVATE_NO_STORE, ErrorMapper
from app.edge.idempotency import IdempotencyRequest, perform_once, read_idempotency_key
from app.edge.maintenance_mode import Maintenance
from app.edge.parameters import ParameterReader
from app.edge.rate_limits import RateLimits, raise_if_exceeded
from app.edge.request_context import IDENTITY, Headers, Reply, RequestContext, client_address
from app.edge.responses import ResponseBuilder, add_tag, unless_known
from app.edge.retries import retry_on_serialization_failure
from app.edge.validation_errors import Violation, raise_violations
from app.edge.worker_threads import Workers
from app.metrics.exposition import render
from rules.access.permissions import ANONYMOUS, CODE_HOST
from rules.errors import ServiceError
from schemas.contract import Contract, ContractError, DatabaseRole, Operation
from schemas.dialect import Validators
from schemas.serialization import Serializers
from services.core.early_answers import early_answer_of
from services.core.read_context import Downloads, HealthCheck, ReadContext, Reader
from services.core.unit_of_work import Authorization, Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.client import installation_of

MAX_USER_AGENT_LENGTH = 300


ReceiveSlack = Callable[[RequestContext, bytes], Awaitable[object]]
"""Answers a request of Slack with this body."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What all operations of one application share."""

    contract: Contract
    errors: ErrorMapper
    maintenance: Maintenance
    credentials: Credentials
    rate_limits: RateLimits
    workers: Mapping[DatabaseRole, Workers]
    uow_factories: Mapping[DatabaseRole, UnitOfWorkFactory]
    """By the database role of an operation, which decides what rows its unit of work sees and which threads it uses."""
    reader: Reader
    downloads: Downloads
    validators: Validators
    serializers: Serializers
    check_replies: bool
    health_checks: dict[str, HealthCheck] = field(default_factory=dict)
    cursor_secrets: tuple[bytes, ...] = (b"",)
    memory: AnswerMemory = field(default_factory=AnswerMemory)
    slack: ReceiveSlack | None = None
    """Answers requests of Slack; None in tests that have no Slack app."""


class CompiledOperation:
    """Serves the requests of one operation with its handler."""

    def __init__(self, edge: Edge, operation: Operation, handler: Callable[..., Any]) -> None:
        self.operation = operation
        self._edge = edge
        self._handler = handler
        self._asynchronous = inspect.iscoroutinefunction(handler)
        self._early_answer = early_answer_of(handler)
        self._takes_session_token = operation.accepts("SessionToken")
        self._takes_credential = any(map(operation.accepts, ("ApiKey", "Session", "SessionToken")))
        writes_for_caller = operation.effect == "write" and self._takes_credential
        if self._asynchronous and (writes_for_caller or operation.installation_required):
            message = "a handler that writes for its caller, or needs the installation, must be synchronous"
            raise ContractError(f"{operation.id}: {message}")
        if self._early_answer is not None and self._takes_credential:
            raise ContractError(f"{operation.id}: what takes a credential must not answer early")
        wanted = inspect.signature(handler).parameters
        self._takes_raw_body = "raw_body" in wanted
        self._takes_headers = "headers" in wanted
        self._takes_body = "body" in wanted
        self._is_v1 = operation.path.startswith("/v1/")
        """Operations of `/v1` refuse forms, and read a body that they do not take."""
        self._parameters = ParameterReader(edge.contract, edge.validators, operation, wanted)
        self._classic = ClassicRequestReader(edge.contract, edge.validators, operation) if operation.classic else None
        reads_json = operation.reads_json and not self._takes_raw_body
        self._body = BodyReader(edge.contract, edge.validators, operation) if reads_json else None
        self._responses = ResponseBuilder(operation, edge.serializers, edge.validators if edge.check_replies else None)
        self._authorizer = Authorizer(operation)
        self._writes = operation.effect == "write"
        self._may_remember = (
            self._asynchronous and (operation.conditional or operation.classic) and not self._takes_headers
        )

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG002 - ASGI's signature
        """Serve one request: set `scope["request_context"].reply`, or raise."""
        request: RequestContext = scope["request_context"]
        request.operation_id = self.operation.id
        if self.operation.security or self.operation.database_role == "identity":
            self._edge.maintenance.check()
        fields, refusal = await self._classic.read(request) if self._classic is not None else ({}, None)
        identity = await self._identify(request, fields) if self._takes_credential else None
        if identity is not None:
            self._authorizer.check(identity)
        if refusal is not None:
            raise refusal
        asked = self._asked(request, identity)
        reply = None if asked is None or identity is None else self._recall(asked, identity)
        if reply is None:
            try:
                reply = await self._reply(request, identity, fields)
                if self.operation.conditional:
                    add_tag(reply)
            except ServiceError as error:
                if asked is not None:
                    asked.keep(error, error.until)
                raise
            if asked is not None:
                asked.keep(reply, reply.until)
        request.reply = unless_known(reply, request) if self.operation.conditional else reply

    def _asked(self, request: RequestContext, identity: Identity | None) -> Asked | None:
        """Return what may be answered from memory; None if nothing of it may.

        The version of freezes is taken from the identity: what is called later for the same request, by a tool or a
        command, may follow a change that this operation makes.
        """
        if identity is None:
            return None
        version, identity.freeze_version = identity.freeze_version, None
        if version is None or not self._may_remember:
            return None
        question = question_of(request, identity.principal, reads_query=not self.operation.classic)
        if question is None:
            return None
        return Asked(self._edge.memory, (self.operation.id, *question), version, identity.now)

    def _recall(self, asked: Asked, identity: Identity) -> Reply | None:
        """Return the remembered answer, if there is one; raise it if it is a refusal."""
        found = asked.find()
        if found is None:
            return None
        require_entitlement(identity, self.operation)
        if isinstance(found, ServiceError):
            raise found
        return found

    async def _reply(self, request: RequestContext, identity: Identity | None, fields: Fields) -> Reply:
        """Read the request and run the handler."""
        try:
            arguments, sent = await self._read(request, fields)
            if identity is not None:
                require_entitlement(identity, self.operation)
            if self.operation.rate_limit is not None:
                await self._count_value(request, *self.operation.rate_limit)
            reply = await self._answer(request, identity, arguments, sent)
        finally:
            if request.unverified_bytes:
                UNVERIFIED_BODIES.release(request.unverified_bytes)
        if reply.stream is not None and identity is not None:
            reply.authorize = partial(self._confirm, identity)
        if self._classic is not None:  # its address may contain the token
            reply.headers.append(PRIVATE_NO_STORE)
            reply.cacheable = True
        return reply

    async def _answer(
        self, request: RequestContext, identity: Identity | None, arguments: dict[str, Any], sent: Any
    ) -> Reply:
        """Run the handler: on the event loop if it is asynchronous, else in a thread and a unit of work."""
        if self._asynchronous:
            return self._responses.reply(await self._handler(self._context(request, identity), **arguments))
        early = self._answer_early(arguments)
        if early is not None:
            return early
        key = read_idempotency_key(request, sent) if self._writes and identity else None
        workers = self._edge.workers[self.operation.database_role]
        return await workers.run(lambda: self._perform(request, identity, arguments, key))

    def _answer_early(self, arguments: dict[str, Any]) -> Reply | None:
        """Return the response to a request for which nothing is to be done, or None."""
        if self._early_answer is None:
            return None
        ports = self._edge.uow_factories[self.operation.database_role].ports
        answer = self._early_answer(ports, **arguments)
        return None if answer is None else self._responses.reply(answer)

    async def _identify(self, request: RequestContext, fields: Fields) -> Identity:
        """Authenticate the request and count it against the rate limits; `fields` are those of a classic client."""
        credentials = self._edge.credentials
        if request.entrance == "web":
            identity = await credentials.identify_visitor(request.header(b"authorization"))
        elif request.entrance in {"mcp", "slack"}:
            identity = request.scope[IDENTITY]
        elif self._takes_session_token:
            identity = await credentials.identify_sign_in(request.header, write=self._writes)
        elif self._classic is not None:
            identity = await credentials.identify_classic_client(authorization_of(request, fields))
        else:
            identity = await credentials.identify(request.header(b"authorization"))
        request.principal = identity.principal
        request.budget = await self._edge.rate_limits.count(identity.principal, write=self._writes)
        raise_if_exceeded(request.budget)
        return identity

    async def _count_value(self, request: RequestContext, parameter: str, limit: int) -> None:
        """Count the request for its value of a path parameter. Raise `rate_limited`."""
        names, values = request.scope["route"]
        value = dict(zip(names, values, strict=True))[parameter]
        raise_if_exceeded(await self._edge.rate_limits.count_value(self.operation.id, value, limit))

    async def _read(self, request: RequestContext, fields: Fields) -> tuple[dict[str, Any], Any]:
        """Return the handler's arguments, and the body as it was sent. Raise all validation errors together."""
        violations: list[Violation] = []
        arguments = self._parameters.read(request, violations)
        sent: Any = None
        if self._is_v1:
            refuse_form(request)
        if self._classic is not None:
            sent = self._classic.arguments(fields, request.principal)
            if self._takes_body:
                arguments["body"] = sent
        elif self._body is not None:
            body, sent = await self._body.read(request, violations)
            if self._takes_body:
                arguments["body"] = body
        elif self._takes_raw_body:
            memory = None if self._takes_credential else UNVERIFIED_BODIES
            arguments["raw_body"] = await read_bytes(request, self.operation.body_limit, memory)
        elif self._is_v1:
            await discard_body(request, self.operation.body_limit)
        if violations:
            raise_violations(violations)
        if self._takes_headers:
            arguments["headers"] = Headers(request.scope["headers"])
        return arguments, sent

    def _context(self, request: RequestContext, identity: Identity | None) -> ReadContext:
        edge = self._edge
        now = identity.now if identity else datetime.now(UTC)
        principal = identity.principal if identity else None
        headers = Headers(request.scope["headers"])
        receive_slack = None if edge.slack is None else partial(edge.slack, request)
        return ReadContext(
            edge.reader,
            edge.downloads,
            principal,
            now,
            headers,
            edge.health_checks,
            edge.cursor_secrets,
            receive_slack,
            render,
        )

    def _perform(
        self,
        request: RequestContext,
        identity: Identity | None,
        arguments: dict[str, Any],
        key: IdempotencyRequest | None,
    ) -> Reply:
        """Run the handler in a worker thread, and again after a serialization failure."""
        return retry_on_serialization_failure(lambda: self._in_unit_of_work(request, identity, arguments, key))

    def _in_unit_of_work(
        self,
        request: RequestContext,
        identity: Identity | None,
        arguments: dict[str, Any],
        key: IdempotencyRequest | None,
    ) -> Reply:
        support = identity is not None and identity.principal.support
        uow_factory = self._edge.uow_factories[self.operation.database_role]
        authorize = (
            partial(self._authorize, identity) if identity is not None and (self._writes or request.is_late) else None
        )
        caller = _caller(request, identity, self.operation)
        with uow_factory.open(caller, read_only=support, authorize=authorize) as uow:
            if self.operation.installation_required:
                installation_of(uow)
            if key is None:
                return self._respond_or_commit_error(uow, request, arguments)
            return perform_once(uow, key, lambda: self._respond_or_commit_error(uow, request, arguments))

    def _authorize(self, identity: Identity, session: Session) -> Authorization:
        """Authorize the principal again, in a transaction, and hold the locks that keep it authorized to its end.

        The plan is checked as well, which may have ended since the headers arrived.
        """
        confirmed = identity.lock(session)
        self._require_same(identity, confirmed)
        require_entitlement(confirmed, self.operation)
        return Authorization(confirmed.now, confirmed.principal.grants, confirmed.principal.actor)

    async def _confirm(self, identity: Identity) -> None:
        """Authorize the principal again, while its response is sent. That a token expires is no revocation."""
        if identity.confirm is None:
            return
        try:
            self._require_same(identity, await identity.confirm())
        except ServiceError as error:
            if error.code != "token_expired":
                raise

    def _require_same(self, identity: Identity, confirmed: Identity) -> None:
        self._authorizer.check(confirmed)
        if confirmed.principal.organization_id != identity.principal.organization_id:
            raise ServiceError("invalid_token", "You are no longer a member of the organisation.")

    def _respond_or_commit_error(self, uow: UnitOfWork, request: RequestContext, arguments: dict[str, Any]) -> Reply:
        """Respond. An error with `commit_on_error` becomes a response here; raised, it would roll back its effects."""
        try:
            return self._respond(uow, arguments)
        except ServiceError as error:
            if not error.commit_on_error:
                raise
            return self._edge.errors.reply(error, request)

    def _respond(self, uow: UnitOfWork, arguments: dict[str, Any]) -> Reply:
        return self._responses.reply(self._handler(uow, **arguments))


def _caller(request: RequestContext, identity: Identity | None, operation: Operation) -> Caller:
    client = request.scope.get("client")
    database_role = operation.database_role
    anonymous = Caller(
        None,
        ANONYMOUS if database_role == "identity" else CODE_HOST,
        "dashboard" if database_role == "identity" else "code_host",
        request_id=request.request_id,
        address=client_address(client[0]) if client else "",
        client=(request.header(b"user-agent") or b"").decode("latin-1")[:MAX_USER_AGENT_LENGTH],
    )
    if identity is None:
        return anonymous
    principal = identity.principal
    return replace(
        anonymous,
        organization_id=principal.organization_id,
        actor=principal.actor,
        source="mcp" if request.entrance == "mcp" else "compat" if operation.classic else principal.source,
        grants=principal.grants,
        principal_id=principal.id,
        user_id=principal.user_id,
        session_id=principal.session_id,
        connected_client=principal.client,
    )
