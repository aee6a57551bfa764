"""The only module that depends on Connexion.

Connexion validates the document, resolves its operations to functions and holds the compiled operations. What it
would recompute on each request (five decorators, signature inspection, a linear search for the route) is replaced
through its extension points: the list of middlewares, `AsyncApi.make_operation`, and a resolver.

Used beyond its documentation, in 3.3.0: `scope["extensions"]["connexion_routing"]` names the operation;
`AsyncASGIApp.api_cls` and `RoutedAPI.operations`; `ConnexionMiddleware._build_middleware_stack` and the attributes
that it fills; `Specification._validate_spec`. `tests/app/edge/test_connexion_adapter.py` fails when one of them
changes.
"""

import importlib
import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

import jsonschema_rs

from app.edge.router import Router
from rules.errors import MethodNotAllowedError, ServiceError
from schemas.contract import Contract, ContractError, Operation

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Connexion imports Starlette's test client, which complains
    import connexion
    from connexion.apps.asynchronous import AsyncApi, AsyncASGIApp
    from connexion.exceptions import InvalidSpecification, ResolverError
    from connexion.middleware.abstract import ROUTING_CONTEXT, SpecMiddleware
    from connexion.middleware.lifespan import LifespanMiddleware
    from connexion.resolver import Resolution, Resolver
    from connexion.spec import OpenAPISpecification

_MAX_HINTED_SEGMENTS = 8
_MAX_HINT_LENGTH = 300
Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Compile = Callable[[Operation, Callable[..., Any]], Application]


class Site(Protocol):
    """What is served beside the operations."""

    def serves(self, path: str) -> bool:
        """True if it has something at this path."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""


Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


class _HandlerResolver(Resolver):  # type: ignore[misc]
    """Finds the function of an operation: the tag names the module, the operationId the function."""

    def __init__(self, contract: Contract, package: str) -> None:
        super().__init__()
        self._contract = contract
        self._package = package

    def resolve(self, operation: Any) -> Resolution:
        """Return the handler. Raise ResolverError if the module or the function is missing."""
        wanted = self._contract.operations[operation.operation_id]
        module_name = f"{self._package}.{wanted.module}"
        try:
            function = getattr(importlib.import_module(module_name), wanted.id)
        except ModuleNotFoundError as error:
            if error.name not in {module_name, self._package}:
                raise
            raise ResolverError(f"{wanted.id}: module {module_name} does not exist") from error
        except AttributeError as error:
            raise ResolverError(f"{wanted.id}: {module_name} has no such function") from error
        return Resolution(function, wanted.id)


_OPENAPI = jsonschema_rs.Draft4Validator(OpenAPISpecification.openapi_schema, offline=True)


def _validate(_: type[OpenAPISpecification], document: dict[str, Any]) -> None:
    """Raise InvalidSpecification unless a document is OpenAPI 3.0.

    Connexion does it by a validator in Python, and most of the time that it takes to start is spent there.
    """
    try:
        _OPENAPI.validate(document)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(map(str, error.instance_path))
        raise InvalidSpecification(f"{where}: {error.message}") from error


OpenAPISpecification._validate_spec = classmethod(_validate)  # noqa: SLF001 - Connexion has no argument for it


class _CompiledApi(AsyncApi):  # type: ignore[misc]
    """Holds the compiled operations by operationId."""

    def __init__(self, *args: Any, contract: Contract, compile_operation: Compile, **kwargs: Any) -> None:
        self._contract = contract
        self._compile = compile_operation
        super().__init__(*args, **kwargs)

    def make_operation(self, operation: Any) -> Application:
        """Compile one operation."""
        return self._compile(self._contract.operations[operation.operation_id], operation.function)


class _CompiledApp(AsyncASGIApp):  # type: ignore[misc]
    api_cls = _CompiledApi


class RoutingMiddleware(SpecMiddleware):  # type: ignore[misc]
    """Finds the operation by the raw path and passes its name to Connexion; other paths may belong to a site."""

    def __init__(self, app: Application, *, sites: Sequence[Site] = ()) -> None:
        self._app = app
        self._sites = sites
        self._router: Router[dict[str, Any]] = Router()

    def add_api(self, specification: Any, *, contract: Contract, **_: Any) -> None:
        """Add the routes of all operations of the contract."""
        for operation in contract.operations.values():
            target = {"api_base_path": specification.base_path, "operation_id": operation.id}
            self._router.add(operation.path, operation.method, target, takes_rest=operation.takes_rest)
            if operation.classic and not operation.takes_rest:
                self._router.add(operation.path + "/", operation.method, target)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on to its operation. Raise `not_found` or `method_not_allowed`."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        raw_path = scope.get("raw_path") or scope["path"].encode()
        found = self._router.find(raw_path)
        if found is None:
            for site in self._sites:
                if site.serves(scope["path"]):
                    return await site(scope, receive, send)
            raise ServiceError("not_found", self._no_endpoint(raw_path))
        target = found.target(scope["method"])
        if target is None:
            raise MethodNotAllowedError(scope["method"], found.allow())
        routing, names = target
        scope["route"] = (names, found.values)
        scope.setdefault("extensions", {})[ROUTING_CONTEXT] = routing
        return await self._app(scope, receive, send)

    def _no_endpoint(self, raw_path: bytes) -> str:
        """Return the message for an unknown path; it names the address if the slash of a repository was not encoded."""
        if self._router.is_too_deep(raw_path.replace(b"/", b"", 1)):  # as deep as the address that would be named
            return "No such endpoint."
        segments = raw_path.split(b"/")
        for index in range(1, min(len(segments), _MAX_HINTED_SEGMENTS) - 1):
            joined = b"/".join([*segments[:index], b"%2F".join(segments[index : index + 2]), *segments[index + 2 :]])
            found = self._router.find(joined)
            if found is not None and any("repoId" in names for _, names in found.methods.values()):
                address = joined.decode("ascii", "replace")[:_MAX_HINT_LENGTH]
                return f"No such endpoint. Write the slash of owner/name as %2F: {address}"
        return "No such endpoint."


def build(
    contract: Contract,
    handlers: str,
    compile_operation: Compile,
    *,
    outermost: Callable[[Application], Application],
    lifespan: Lifespan,
    sites: Sequence[Site] = (),
    complete: bool = True,
) -> connexion.AsyncApp:
    """Return the application with its middleware stack built; a bad contract or a missing handler stops the start.

    `handlers` is the package of the handlers; `outermost` is the middleware that wraps everything; `sites` are asked in
    turn for the paths that no operation has. Unless `complete`, operations without a handler are left out.

    Raise ContractError if the contract is invalid or incomplete.
    """
    app = connexion.AsyncApp(
        "app",
        lifespan=lifespan,
        middlewares=[outermost, partial(RoutingMiddleware, sites=sites), LifespanMiddleware],
        resolver=_HandlerResolver(contract, handlers),
    )
    app._middleware_app = _CompiledApp()  # noqa: SLF001 - AsyncApp has no argument for it
    app.middleware.app = app._middleware_app  # noqa: SLF001 - the same object, wrapped
    try:
        app.add_api(dict(contract.document), base_path="", contract=contract, compile_operation=compile_operation)
        stack = app.middleware._build_middleware_stack()  # noqa: SLF001 - Connexion would build it on the first request
    except InvalidSpecification as error:
        raise ContractError(f"the contract is not OpenAPI 3.0: {error}") from error
    app.middleware.app, app.middleware.middleware_stack = stack
    if complete:
        _require_handlers(contract, handlers, app)
    return app


def _require_handlers(contract: Contract, handlers: str, app: connexion.AsyncApp) -> None:
    """Raise ContractError if operations have no handler; Connexion would leave them out silently."""
    compiled = {name for apis in app._middleware_app.apis.values() for api in apis for name in api.operations}  # noqa: SLF001
    missing = [operation for operation in contract.operations.values() if operation.id not in compiled]
    if missing:
        names = ", ".join(f"{handlers}/{operation.module}.py: {operation.id}" for operation in missing)
        raise ContractError(f"operations without a handler: {names}")
