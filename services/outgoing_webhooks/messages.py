"""Messages: what an event is for an endpoint, as JSON that is written once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy.dialects.postgresql import insert

from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.ids import new_id
from rules.outgoing_webhooks.events import is_chosen
from rules.time.instants import format_instant
from services.core.unit_of_work import UnitOfWork
from services.events.event import Event

JOB = "outgoing_webhooks"
"""The job that delivers messages."""
MAX_BODY_BYTES = 20_000
"""A body that would be longer is cut (`body_of`); all details can be read in the audit log."""


def take_events(uow: UnitOfWork, endpoint_id: str, events: Sequence[Event]) -> None:
    """Write a message for each event that an endpoint has chosen, and wake the job that delivers them."""
    endpoint = uow.session.get(WebhookEndpoint, endpoint_id)
    if endpoint is None or not endpoint.enabled:
        return
    rows = [_message_row(uow, endpoint, event) for event in events if is_chosen(event.action, endpoint.events)]
    if rows:
        uow.session.execute(insert(WebhookMessage).on_conflict_do_nothing(), rows)
        uow.wake(JOB)


def _message_row(uow: UnitOfWork, endpoint: WebhookEndpoint, event: Event) -> dict[str, Any]:
    """Return the columns of a message that is due at once."""
    return {
        "id": new_id("msg"),
        "organization_id": endpoint.organization_id,
        "endpoint_id": endpoint.id,
        "event": event.action,
        "entry_id": event.entry_id,
        "sequence": event.sequence,
        "body": body_of(event.action, event.at, _data(event)),
        "created_at": uow.now,
        "due_at": uow.now,
    }


def body_of(event: str, at: datetime, data: dict[str, Any]) -> str:
    """Return the body of a message: JSON without line breaks, so that text from outside stays inside its string.

    If it is too long, the details of its entry are null, or the last of its windows are left out; `truncated` is true.
    """
    body = _dump(event, at, data)
    if len(body) > MAX_BODY_BYTES and "entry" in data:
        body = _dump(event, at, {**data, "entry": {**data["entry"], "details": None}, "truncated": True})
    windows = data.get("windows", ())
    while len(body) > MAX_BODY_BYTES and windows:
        windows = windows[: len(windows) // 2]
        body = _dump(event, at, {**data, "windows": windows, "truncated": True})
    return body.decode()


def _dump(event: str, at: datetime, data: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": event, "timestamp": format_instant(at), "data": data})


def _data(event: Event) -> dict[str, Any]:
    """Return what happened: the audit entry as in the API, or the windows that begin soon."""
    data: dict[str, Any] = {"organizationId": event.organization_id}
    if event.entry_id is None:
        return {**data, **event.details}
    entry = {
        "id": event.entry_id,
        "at": format_instant(event.at),
        "action": event.action,
        "actor": event.actor,
        "source": event.source,
        "target": event.target,
        "requestId": event.request_id,
        "details": event.details,
        "sequence": event.sequence,
    }
    return {**data, "entry": entry}
