"""A client for tests whose every answer from an operation is checked against the contract by openapi-core."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import httpx

from schemas.contract import Operation, load_contract
from tests.harness.contract_assertions import assert_conforms
from tests.harness.servers import client_of

Check = Callable[[str, httpx.Response], None]
"""Gets the id of an operation and its answer, and raises if that is wrong."""
_further_checks: list[Check] = []


def check_conformance(response: httpx.Response) -> str | None:
    """Read an answer, and fail unless the contract documents it; return the id of its operation, if it has one."""
    response.read()
    operation_id = operation_id_of(response.request)
    if operation_id is not None:
        assert_conforms(operation_id, response)
    return operation_id


def check_answer(response: httpx.Response) -> None:
    """Check that an answer conforms, and whatever else is checked now."""
    operation_id = check_conformance(response)
    if operation_id is not None:
        for check in _further_checks:
            check(operation_id, response)


def checked_client(base_url: str, check: Callable[[httpx.Response], object] = check_answer) -> httpx.Client:
    """Return a client that checks whatever it is answered."""
    return client_of(base_url, event_hooks={"response": [check]})


@contextmanager
def also_checking(check: Check) -> Iterator[None]:
    """Have another check done of every answer of an operation, until the end of the block."""
    _further_checks.append(check)
    yield
    _further_checks.remove(check)


def operation_id_of(request: httpx.Request) -> str | None:
    """Return the id of the operation that a request is for; None for other routes."""
    path = request.url.raw_path.decode("ascii").partition("?")[0]
    return next(
        (found for method, pattern, found in _routes() if method == request.method and pattern.fullmatch(path)), None
    )


@cache
def _routes() -> list[tuple[str, re.Pattern[str], str]]:
    """Return method, path and id of every operation, those without variables first."""
    operations = sorted(load_contract().operations.values(), key=lambda one: one.path.count("{"))
    return [(one.method.upper(), re.compile(_pattern(one)), one.id) for one in operations]


def _pattern(operation: Operation) -> str:
    path = re.escape(operation.path)
    if operation.takes_rest:
        path = re.sub(r"\\\{\w+\\\}$", ".+", path)
    return re.sub(r"\\\{\w+\\\}", "[^/]+", path) + ("/?" if operation.classic else "")
