"""Compares the examples of error codes in the contract with what the service answers in a run of all tests.

An example is true if the service gave it in some test, but for ids, numbers, addresses and quoted names. A run of all
tests fails, and names them, if examples are left that nobody was answered.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
import pytest

from app.edge.errors import ErrorMapper
from app.edge.request_context import Reply
from rules.errors import ServiceError
from schemas.contract import load_contract

_PROPERTY = "answered examples"
_KEYS = ("example", "alsoExample", "compatExample")
_WHOLE = {"", "not check"}
"""Mark expressions of runs that are expected to answer every example."""
_MASKS = (
    (re.compile(r"\b[a-z]{3}_[0-9a-v]{26}\b"), "{id}"),
    (re.compile(r"https?://[^/\s;]+(/[^\s?]*)?(\?\S+)?"), r"{address}\1"),
    (re.compile(r"'[^']*'"), "{name}"),
    (re.compile(r"\d+"), "{number}"),
)
_answered: set[str] = set()
"""Names of examples that were answered since the last test."""


class AnsweredErrors:
    """A plugin of pytest that notes which examples are answered; workers report them with their tests."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self.missing: list[str] = []
        """Examples that a run of all tests did not answer."""

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Add to the report of a test what was answered during it."""
        item.user_properties.append((_PROPERTY, take_answered()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was answered during a test."""
        for name, value in report.user_properties:
            if name == _PROPERTY and isinstance(value, list):
                self._known.update(value)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Have a run of all tests fail that has not answered every example."""
        if exitstatus == pytest.ExitCode.OK and _is_whole(session.config):
            self.missing = sorted(set(examples().values()) - self._known)
            if self.missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the examples that were not answered."""
        if self.missing:
            terminalreporter.section("examples of openapi.yaml that no test was answered", red=True)
            terminalreporter.write_line(", ".join(self.missing))


def note_answers() -> None:
    """Have every error that a service in this process answers compared with the examples."""
    for name in ("envelope", "_classic"):
        setattr(ErrorMapper, name, _noting(getattr(ErrorMapper, name)))


def take_answered() -> list[str]:
    """Return the names of the examples that were answered since the last call."""
    found = sorted(_answered)
    _answered.difference_update(found)
    return found


@cache
def examples() -> dict[str, str]:
    """Return masked answer → name of every example of the catalogue: `invalid_parameter example`."""
    rows = load_contract().document["x-error-catalogue"].items()
    return {masked(row[key], code): f"{code} {key}" for code, row in rows for key in _KEYS if key in row}


def masked(error: Mapping[str, Any], code: str) -> str:
    """Return message and details of an error as a text, without what differs from answer to answer."""
    shown = {"code": code, "message": error["message"], "details": error.get("details")}
    return orjson.dumps(_masked(shown), option=orjson.OPT_SORT_KEYS).decode()


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, str):
        for pattern, replacement in _MASKS:
            value = pattern.sub(replacement, value)
    return value


def _noting(method: Any) -> Any:
    def noting(mapper: ErrorMapper, error: ServiceError, request_id: str) -> Reply:
        reply: Reply = method(mapper, error, request_id)
        if (name := examples().get(masked(_error_of(reply), error.code))) is not None:
            _answered.add(name)
        return reply

    return noting


def _error_of(reply: Reply) -> dict[str, Any]:
    error = orjson.loads(reply.body)["error"]
    return {"message": error} if isinstance(error, str) else error  # the compatibility API has the message alone


def _is_whole(config: pytest.Config) -> bool:
    """True if all tests of behaviour run."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return whole and not config.getoption("keyword") and config.getoption("markexpr") in _WHOLE
