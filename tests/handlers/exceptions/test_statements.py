"""What a grant costs: it answers from the rows that it has made, and reads nothing twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event

from models.freezes import Freeze
from models.pull_requests import PullRequest
from tests.handlers.callers import Tenant
from tests.handlers.exceptions.requests import THIS, rows

MAX_STATEMENTS = 21


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the statements that are sent to PostgreSQL during the block."""
    sent: list[str] = []

    def collect(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", collect)


@pytest.mark.parametrize("path", ["/v1/exceptions", "/v1/exception-requests"])
def test_exception_needs_few_statements(acme: Tenant, freeze: Freeze, pull: PullRequest, path: str) -> None:
    key = acme.key("exception:write")
    with statements() as sent:
        answer = key.post(path, THIS)
    rows(answer, 201)
    assert len(sent) <= MAX_STATEMENTS
