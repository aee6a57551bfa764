"""The deliveries of an endpoint as people see them: list them, have one sent again, and send a test event."""

from typing import Any

from sqlalchemy import and_, select, text

from models.outgoing_webhooks import MessageState, WebhookEndpoint, WebhookMessage
from rules.errors import ServiceError
from rules.ids import new_id
from rules.outgoing_webhooks.events import TEST
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST
from services.outgoing_webhooks.endpoints import get_endpoint, target_of
from services.outgoing_webhooks.messages import JOB, body_of

_KEYS = (WebhookMessage.created_at, WebhookMessage.id)
_PENDING = WebhookMessage.due_at.is_not(None)
_STATES = {
    "pending": _PENDING,
    "delivered": and_(~_PENDING, WebhookMessage.delivered_at.is_not(None)),
    "failed": and_(~_PENDING, WebhookMessage.delivered_at.is_(None)),
}
_REDELIVER = text(f"""
    UPDATE webhook_messages m
    SET attempts = 0, delivered_at = NULL, last_error_code = NULL, last_error_message = NULL,
        due_at = {REQUEST.format(row="m")}
    WHERE id = :message
""")  # noqa: S608 - a constant


def list_deliveries(
    uow: UnitOfWork, endpoint_id: str, state: MessageState | None, cursor: str | None, limit: int
) -> Page:
    """Return a page of an endpoint's deliveries, newest first; `state` None means any.

    Raise `webhook_not_found` and `invalid_cursor`.
    """
    query = select(WebhookMessage).where(WebhookMessage.endpoint_id == get_endpoint(uow, endpoint_id).id)
    if state is not None:
        query = query.where(_STATES[state])
    filters = {"webhook": endpoint_id, "state": state}
    page = page_of(uow, "list_webhook_deliveries", filters, query, _KEYS, cursor=cursor, limit=limit)
    return Page([_to_response(message) for message in page.data], page.next_cursor)


def redeliver(uow: UnitOfWork, endpoint_id: str, message_id: str) -> dict[str, Any]:
    """Have a message sent again, whatever became of it, with the same id and body.

    Raise `webhook_not_found`, `webhook_delivery_not_found`, and `invalid_state` if the endpoint is disabled.
    """
    endpoint = _lock_enabled(uow, endpoint_id)
    query = select(WebhookMessage).where(WebhookMessage.id == message_id, WebhookMessage.endpoint_id == endpoint.id)
    message = uow.session.scalar(query.with_for_update(key_share=True))
    if message is None:
        raise ServiceError("webhook_delivery_not_found", f"Delivery {message_id!r} not found for this webhook.")
    uow.session.execute(_REDELIVER, {"message": message.id, "now": uow.now})
    uow.session.refresh(message)
    uow.audit("webhook.redelivery_requested", target_of(endpoint), deliveryId=message.id, event=message.event)
    uow.wake(JOB)
    return _to_response(message)


def send_test(uow: UnitOfWork, endpoint_id: str) -> dict[str, Any]:
    """Send a test event to an endpoint. Raise `webhook_not_found`, and `invalid_state` if it is disabled."""
    endpoint = _lock_enabled(uow, endpoint_id)
    data = {"organizationId": uow.organization, "webhookId": endpoint.id, "message": "This is a test."}
    message = WebhookMessage(
        id=new_id("msg"),
        organization_id=uow.organization,
        endpoint_id=endpoint.id,
        event=TEST,
        body=body_of(TEST, uow.now, data),
        created_at=uow.now,
        due_at=uow.now,
        attempt_count=0,
    )
    uow.session.add(message)
    uow.session.flush()
    uow.audit("webhook.test_requested", target_of(endpoint), deliveryId=message.id)
    uow.wake(JOB)
    return _to_response(message)


def _lock_enabled(uow: UnitOfWork, endpoint_id: str) -> WebhookEndpoint:
    """Return an endpoint, locked until the commit. Raise `invalid_state` if it is disabled."""
    endpoint = get_endpoint(uow, endpoint_id, lock=True)
    if not endpoint.enabled:
        raise ServiceError("invalid_state", "The webhook is disabled. Enable it first.")
    return endpoint


def _to_response(message: WebhookMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "event": message.event,
        "entry_id": message.entry_id,
        "state": message.state,
        "attempts": message.attempt_count,
        "created_at": message.created_at,
        "last_attempt_at": message.last_attempt_at,
        "last_status": message.last_status,
        "last_answer": message.last_answer,
        "last_error": message.last_error_message,
        "next_attempt_at": message.due_at,
        "delivered_at": message.delivered_at,
    }
