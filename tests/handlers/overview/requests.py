"""Asking for the overview and for what needs attention, and raising something that does."""

from collections.abc import Mapping
from typing import Any

from tests.handlers.callers import Caller, answered

OVERVIEW, ATTENTION = "/v1/overview", "/v1/attention"


def shown(caller: Caller, path: str = OVERVIEW, **asked: Any) -> Any:
    return answered(caller.get(path, **asked))


def items(caller: Caller, **asked: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = shown(caller, ATTENTION, **asked)["data"]
    return found


def only(caller: Caller) -> Mapping[str, Any]:
    (item,) = items(caller)
    return item
