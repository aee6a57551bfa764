"""Operations of the tag Outgoing webhooks."""

from typing import Any

from handlers.entity_tags import tagged
from models.outgoing_webhooks import MessageState
from schemas.replies import SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.outgoing_webhooks import deliveries, endpoints


def list_webhook_events(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the events that a webhook can choose."""
    return endpoints.list_events(uow, cursor, limit)


def list_webhooks(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the organisation's webhooks, newest first."""
    return endpoints.list_endpoints(uow, cursor, limit)


def create_webhook(uow: UnitOfWork, body: dict[str, Any]) -> SecretReply:
    """Create a webhook and return its secret once."""
    return SecretReply(endpoints.create(uow, endpoints.NewWebhook(**body)))


def get_webhook(uow: UnitOfWork, webhook_id: str) -> object:
    """Return a webhook."""
    return tagged(endpoints.get(uow, webhook_id))


def update_webhook(uow: UnitOfWork, webhook_id: str, body: dict[str, Any], if_match: str | None) -> object:
    """Change a webhook."""
    return tagged(endpoints.change(uow, webhook_id, body, if_match))


def delete_webhook(uow: UnitOfWork, webhook_id: str) -> None:
    """Delete a webhook."""
    endpoints.delete(uow, webhook_id)


def rotate_webhook_secret(uow: UnitOfWork, webhook_id: str, body: dict[str, Any]) -> SecretReply:
    """Replace the secret of a webhook and return it once."""
    return SecretReply(endpoints.rotate(uow, webhook_id, body["grace_seconds"]))


def send_webhook_test(uow: UnitOfWork, webhook_id: str) -> dict[str, Any]:
    """Send a test event to a webhook."""
    return deliveries.send_test(uow, webhook_id)


def list_webhook_deliveries(
    uow: UnitOfWork, webhook_id: str, state: MessageState | None, limit: int, cursor: str | None
) -> Page:
    """List the deliveries of a webhook, newest first."""
    return deliveries.list_deliveries(uow, webhook_id, state, cursor, limit)


def redeliver_webhook(uow: UnitOfWork, webhook_id: str, delivery_id: str) -> dict[str, Any]:
    """Send a delivery again."""
    return deliveries.redeliver(uow, webhook_id, delivery_id)
