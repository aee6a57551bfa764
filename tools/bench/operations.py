"""The measured operations of `tools.bench.edge`, as handlers."""

from typing import Any

from services.core.read_context import ReadContext

BODY: dict[str, Any] = {
    "name": "Release week",
    "timezone": "Europe/London",
    "reason": "The release is being cut",
    "enabled": True,
    "exceptions_allowed": False,
    "interval": 1,
    "count": 12,
    "starts_at": "2026-11-23T17:00:00Z",
    "ends_at": "2026-11-30T08:00:00Z",
    "days": ["MO", "TU", "WE"],
}
REPLY = {"id": "frz_00000000000000000000000001", **BODY}


async def get(context: ReadContext, thing_id: str, limit: int) -> object:  # noqa: ARG001 - measured, not used
    """Answer on the event loop."""
    return REPLY


async def post(context: ReadContext, thing_id: str, body: dict[str, Any]) -> object:  # noqa: ARG001 - measured, not used
    """Answer what was sent, on the event loop."""
    return {**REPLY, **body}


def get_in_thread(uow: object, thing_id: str, limit: int) -> object:  # noqa: ARG001 - measured, not used
    """Answer in a worker thread."""
    return REPLY


def post_in_thread(uow: object, thing_id: str, body: dict[str, Any]) -> object:  # noqa: ARG001 - measured, not used
    """Answer what was sent, in a worker thread."""
    return {**REPLY, **body}
