"""A branch that schedules cover, and a person and a key that may create them."""

from typing import Any

import orjson
import pytest

from integrations.calendars import ics, reader
from models.repositories import WatchedBranch
from tests.handlers.callers import Caller, Tenant


@pytest.fixture(autouse=True)
def _watched(web: WatchedBranch) -> None:
    """Have a watched branch in every test."""


@pytest.fixture
def member(acme: Tenant) -> Caller:
    return acme.person("member")


@pytest.fixture
def key(acme: Tenant) -> Caller:
    return acme.key()


@pytest.fixture
def calendars_read_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the start of a process for each calendar, in tests of what is imported."""

    def run(request: dict[str, Any]) -> Any:
        return orjson.loads(orjson.dumps(reader.handle(orjson.loads(orjson.dumps(request)))))

    monkeypatch.setattr(ics, "_run_reader", run)
