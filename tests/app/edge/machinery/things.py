"""Handlers of the small contract's tag Things; the audit has no words for things, and takes them for branches."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import text

from rules.errors import Detail, ServiceError
from schemas.replies import RawReply, SecretReply
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
from tests.harness.concurrency import PATIENCE, Task

T = TypeVar("T")
SEEN: dict[str, Any] = {}
"""The arguments of the last call, by operationId."""
HOLD = threading.Event()
"""While it is not set, `hold_thing` does not return."""
HELD = threading.Semaphore(0)
"""Released by `hold_thing` when it has started."""


@contextmanager
def holding(call: Callable[[], T]) -> Iterator[Task[T]]:
    """Make a call that `hold_thing` holds while the block runs."""
    HOLD.clear()
    held = Task(call)
    try:
        assert HELD.acquire(timeout=PATIENCE)
        yield held
    finally:
        HOLD.set()


def list_things(uow: UnitOfWork, **arguments: Any) -> Page:
    """Return two things and a cursor."""
    SEEN["list_things"] = arguments
    return Page([_thing(uow.now, "one"), _thing(uow.now, "two")], "next")


def create_thing(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Make a thing: its audit row is the effect."""
    SEEN["create_thing"] = body
    uow.audit("branch.watched", ("thing", "thg_1", body["name"]))
    uow.session.flush()
    uow.wake("reconcile")
    if body["name"] == "refused by the service":
        raise ServiceError("invalid_state", "Not now.")
    if body["name"] == "refused, and its effect stays":
        shown = Detail("/name", "go there", extra={"address": "https://go.test/canary-state"})
        raise ServiceError("invalid_state", "Go there first.", details=(shown,), commit_on_error=True)
    if body["name"] == "invalid for the service":
        raise ServiceError("invalid_parameter", "Cannot be.", details=(Detail("/name", "cannot be"),))
    if body["name"] == "fails within":
        raise RuntimeError("a fault with svc_live_abcdefghijklmnopqrstuvwxyz012345ABCDEF in it")
    return _thing(uow.now, body["name"])


def get_thing(uow: UnitOfWork, thing_id: str) -> object:
    """Return a thing."""
    SEEN["get_thing"] = thing_id
    if thing_id == "thg_none":
        raise ServiceError("not_found", "There is no such thing.")
    return {"id": thing_id, "name": "a thing"} if thing_id == "thg_wrong" else _thing(uow.now, thing_id)


def delete_thing(uow: UnitOfWork, thing_id: str) -> None:
    """Remove a thing."""
    uow.audit("branch.unwatched", ("thing", thing_id, thing_id))


def hold_thing(uow: UnitOfWork, thing_id: str) -> object:
    """Take as long as a test likes."""
    uow.audit("branch.updated", ("thing", thing_id, thing_id))
    uow.session.flush()
    HELD.release()
    HOLD.wait(PATIENCE)
    return _thing(uow.now, thing_id)


def reveal_thing(uow: UnitOfWork, thing_id: str) -> SecretReply:
    """Show a secret."""
    uow.audit("api_key.created", ("thing", thing_id, thing_id))
    return SecretReply(_thing(uow.now, "canary-secret"))


def fail_twice(uow: UnitOfWork) -> object:
    """Meet a serialization failure twice, as PostgreSQL reports it."""
    SEEN["attempts"] = SEEN.get("attempts", 0) + 1
    if SEEN["attempts"] <= 2:
        uow.session.execute(text("DO $$ BEGIN RAISE serialization_failure; END $$"))
    return _thing(uow.now, "third")


async def peek_thing(context: ReadContext, thing_id: str) -> object:
    """Read without leaving the event loop."""
    rows = await context.fetch("SELECT count(*) AS count FROM audit_entries")
    SEEN["peek_thing"] = rows[0]["count"]
    return {
        "id": thing_id,
        "name": f"{rows[0]['count']}",
        "created_at": datetime(2026, 1, 2, tzinfo=context.now.tzinfo),
    }


async def ping(_: ReadContext) -> object:
    """Answer without a credential."""
    return {"id": "thg_ping", "name": "ping", "created_at": "2026-01-02T00:00:00Z"}


def receive(uow: UnitOfWork, raw_body: bytes, headers: dict[str, str], x_event: str) -> RawReply:
    """Take a signed delivery."""
    SEEN["receive"] = (raw_body, headers.get("x-signature"), x_event)
    return RawReply(202, {"Content-Type": "text/plain"}, b"taken")


def sessions_only(uow: UnitOfWork) -> object:
    """Answer sessions only."""
    return _thing(uow.now, "session")


administer = installed = personal = sessions_only


def _thing(now: datetime, name: str) -> dict[str, Any]:
    return {"id": "thg_1", "name": name, "created_at": now}
