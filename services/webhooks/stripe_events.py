"""Events of Stripe: hints to read a customer, or the prices, again.

Nothing of an event is believed but its id, its type and the customer that it names: its object is as old as the event,
and has the API version of the endpoint. So lost, late, doubled and reordered events end in the same state.
"""

import logging
from typing import Any

import orjson

from integrations.stripe import Stripe
from integrations.stripe.signatures import verify
from rules.errors import ServiceError
from services.billing.stripe_requests import request_prices, request_sync
from services.core.unit_of_work import UnitOfWork

logger = logging.getLogger(__name__)

_PRICES = ("price.", "product.")


def receive(uow: UnitOfWork, raw_body: bytes, signature: str | None) -> dict[str, Any]:
    """Request what a signed event suggests; an event of the other mode, or of no customer of ours, is ignored.

    Raise `invalid_signature` unless the raw bytes are signed with one of our secrets, and `malformed_json`.
    """
    stripe = uow.ports.find(Stripe)
    if stripe is None or not verify(stripe.settings.webhook_secrets, raw_body, signature, uow.now):
        raise ServiceError("invalid_signature", "Stripe-Signature does not match the request body.")
    event = _parsed(raw_body)
    kind, event_id = str(event.get("type", "")), str(event.get("id", ""))
    if event.get("livemode") is not stripe.settings.live:
        requested = False
    elif kind.startswith(_PRICES):
        request_prices(uow)
        requested = True
    else:
        customer_id = _customer_of(event)
        requested = customer_id is not None and request_sync(uow, customer_id)
    logger.info("event %s (%s) of Stripe: %s", event_id, kind, "requested" if requested else "ignored")
    return {"event_id": event_id, "ignored": not requested}


def _parsed(raw_body: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(raw_body)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict):
        raise ServiceError("malformed_json", "The event is not a JSON object.")
    return event


def _customer_of(event: dict[str, Any]) -> str | None:
    """Return the id of the customer that an event is about, or None."""
    data = event.get("data")
    about = data.get("object") if isinstance(data, dict) else None
    if not isinstance(about, dict):
        return None
    found = about.get("id") if about.get("object") == "customer" else about.get("customer")
    return found if isinstance(found, str) and "\x00" not in found else None
