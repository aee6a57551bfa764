"""Requests about freezes in tests, and how responses are read."""

from datetime import datetime, timedelta
from typing import Any

import httpx

from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller

EVERYTHING = {"type": "organization"}
REASON = "Release 4.2 is being rolled out"
FIRST = {"scope": EVERYTHING, "reason": REASON, "impactAcknowledged": True}
UNKNOWN = "frz_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["Freeze"]["required"])


def text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def in_hours(hours: float) -> str:
    return text(factories.now() + timedelta(hours=hours))


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["data"]]


def paths(error: dict[str, Any]) -> list[str]:
    return [row["path"] for row in error["details"]]


def all_pages(caller: Caller, path: str, **params: Any) -> list[list[dict[str, Any]]]:
    pages, cursor = [], None
    while True:
        page = caller.get(path, **params, **({"cursor": cursor} if cursor else {})).json()
        pages.append(page["data"])
        cursor = page["nextCursor"]
        if cursor is None:
            return pages
