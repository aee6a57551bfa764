"""What the edge leans on in Connexion, and that a bad set-up stops the start."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import connexion
import pytest
from connexion.apps.asynchronous import AsyncApi, AsyncASGIApp
from connexion.middleware.abstract import ROUTING_CONTEXT, RoutedAPI, RoutedMiddleware, SpecMiddleware
from connexion.middleware.main import ConnexionMiddleware
from connexion.spec import OpenAPISpecification, Specification

from app.edge import connexion_adapter
from schemas.contract import Contract, ContractError, parse_contract

NEWS = "Connexion has changed: read app/edge/connexion_adapter.py against it, then change this test"


class TestConnexionInternals:
    def test_connexion_has_the_tested_version(self) -> None:
        assert version("connexion") == "3.3.0", NEWS

    def test_connexion_application_holds_the_replaceable_inner_application(self) -> None:
        app = connexion.AsyncApp("app")
        assert isinstance(app._middleware_app, AsyncASGIApp), NEWS
        assert app.middleware.app is app._middleware_app, NEWS
        assert app.middleware.middleware_stack is None, NEWS

    def test_connexion_makes_operations_by_method_and_finds_them_by_id(self) -> None:
        assert AsyncASGIApp.api_cls is AsyncApi, NEWS
        assert issubclass(AsyncApi, RoutedAPI), NEWS
        assert issubclass(AsyncASGIApp, RoutedMiddleware), NEWS
        assert list(inspect.signature(AsyncApi.make_operation).parameters) == ["self", "operation"], NEWS
        assert "self.operations[operation.operation_id] = routed_operation" in inspect.getsource(RoutedAPI), NEWS
        assert 'connexion_context.get("operation_id")' in inspect.getsource(RoutedMiddleware.__call__), NEWS
        assert ROUTING_CONTEXT == "connexion_routing", NEWS

    def test_connexion_validates_a_document_in_one_method_without_result(self) -> None:
        assert "        self._validate_spec(raw_spec)\n" in inspect.getsource(Specification.__init__), NEWS
        assert issubclass(OpenAPISpecification, Specification), NEWS

    def test_connexion_builds_its_stack_as_the_first_request_would(self) -> None:
        source = inspect.getsource(ConnexionMiddleware.__call__)
        assert "self.app, self.middleware_stack = self._build_middleware_stack()" in source, NEWS
        assert issubclass(connexion_adapter.RoutingMiddleware, SpecMiddleware), NEWS


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    yield


class Outermost:
    def __init__(self, app: connexion_adapter.Application) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


def build(contract: Contract, handlers: str = "tests.app.edge.machinery", **options: Any) -> connexion.AsyncApp:
    return connexion_adapter.build(
        contract, handlers, lambda _operation, handler: handler, outermost=Outermost, lifespan=lifespan, **options
    )


class TestInvalidSetup:
    def test_adapter_builds_the_stack_before_the_first_request(self, small_contract: Contract) -> None:
        assert build(small_contract).middleware.middleware_stack is not None

    def test_adapter_names_every_missing_handler(self, small_contract: Contract) -> None:
        source = small_contract.source.replace(b"operationId: ping", b"operationId: pong")
        source = source.replace(b"operationId: receive", b"operationId: receive_other")
        with pytest.raises(ContractError, match=r"things\.py: pong, .*things\.py: receive_other"):
            build(parse_contract(source))

    def test_adapter_names_a_missing_module(self, small_contract: Contract) -> None:
        with pytest.raises(ContractError, match=r"tests\.app/things\.py: list_things"):
            build(small_contract, "tests.app")

    def test_adapter_allows_an_incomplete_application_on_request(self, small_contract: Contract) -> None:
        build(parse_contract(small_contract.source.replace(b"operationId: ping", b"operationId: pong")), complete=False)

    def test_adapter_rejects_a_document_other_than_openapi_3_0(self, small_contract: Contract) -> None:
        for old, new in ((b"openapi: 3.0.3", b"openapi: 3.1.0"), (b"description: things", b"note: things")):
            with pytest.raises(ContractError, match=r"not OpenAPI 3\.0"):
                build(parse_contract(small_contract.source.replace(old, new)))
