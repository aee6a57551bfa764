"""Requests about freezes in tests, and how responses are read."""

from datetime import datetime, timedelta
from typing import Any

import httpx

from schemas.contract import load_contract
from tests import factories

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
