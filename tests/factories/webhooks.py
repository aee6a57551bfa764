"""Outgoing webhooks of an organisation."""

from typing import Any

from sqlalchemy.orm import Session

from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.ids import new_id
from rules.outgoing_webhooks.signatures import new_secret
from services.core.encryption import encrypt
from services.outgoing_webhooks.endpoints import USE
from tests.factories.adding import added, now
from tests.factories.organizations import SECRET_KEY


def webhook(
    session: Session, organization: Organization, *, secret: str | None = None, **columns: Any
) -> WebhookEndpoint:
    """Add an endpoint that has chosen all events."""
    endpoint_id = new_id("whk")
    given = {
        "id": endpoint_id,
        "organization_id": organization.id,
        "name": "Status page",
        "url": "https://hooks.example.com/in",
        "events": ["*"],
        "remind_before": [],
        "enabled": True,
        "encrypted_secret": encrypt(SECRET_KEY.encode(), USE, endpoint_id, (secret or new_secret()).encode()),
        "created_by": {"type": "system", "id": "system", "name": "Change-Freeze Service"},
    }
    return added(session, WebhookEndpoint(**given | columns))


def webhook_message(session: Session, endpoint: WebhookEndpoint, **columns: Any) -> WebhookMessage:
    """Add a message for an endpoint that is due."""
    given = {
        "id": new_id("msg"),
        "organization_id": endpoint.organization_id,
        "endpoint_id": endpoint.id,
        "event": "freeze.started",
        "body": '{"type":"freeze.started","timestamp":"2026-11-21T09:30:00Z","data":{}}',
        "due_at": now(),
    }
    return added(session, WebhookMessage(**given | columns))
