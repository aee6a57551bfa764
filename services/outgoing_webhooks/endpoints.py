"""Endpoints of outgoing webhooks: list, create, change, rotate the secret, delete.

The secret is shown once and stored encrypted. The audit log has the origin of the address only, because its path can be
a secret of the receiver.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update

from integrations.outgoing_webhooks import WebhookClient
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from rules.audit.changes import differences
from rules.errors import ServiceError, field_error, merge_errors
from rules.ids import new_id
from rules.outgoing_webhooks.addresses import origin_of, problem_with
from rules.outgoing_webhooks.events import list_events as all_events
from rules.outgoing_webhooks.events import unknown_events
from rules.outgoing_webhooks.signatures import new_secret
from services.alerts.alerts import resolve_alert
from services.core.encryption import decrypt_with_any, encrypt
from services.core.entity_tags import require_match
from services.core.pagination import Page, page_of, page_of_listed
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork
from services.events.destinations import add_destination, change_reminders, remove_destination
from services.organizations.organizations import lock_current

MAX_ENDPOINTS = 20
"""Endpoints that an organisation may have."""
USE = "outgoing webhooks"
"""The purpose of the encryption of secrets."""
_KEYS = (WebhookEndpoint.created_at, WebhookEndpoint.id)
_UNKNOWN = "is not an event that can be chosen; GET /v1/webhooks/events lists them"
_CANCELLED = "The webhook was disabled or deleted before it took the message."


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """The input for a new endpoint."""

    name: str
    url: str
    events: list[str]
    remind_before: list[int] = field(default_factory=list)


def list_events(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the events that endpoints can choose. Raise `invalid_cursor`."""
    listed = [{"event": event, "meaning": meaning} for event, meaning in all_events()]
    return page_of_listed(uow, "list_webhook_events", listed, cursor, limit)


def list_endpoints(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the organisation's endpoints, newest first. Raise `invalid_cursor`."""
    query = select(WebhookEndpoint).where(
        WebhookEndpoint.organization_id == uow.organization, WebhookEndpoint.deleted_at.is_(None)
    )
    page = page_of(uow, "list_webhooks", None, query, _KEYS, cursor=cursor, limit=limit)
    return Page([_to_response(uow, endpoint) for endpoint in page.data], page.next_cursor)


def get(uow: UnitOfWork, endpoint_id: str) -> dict[str, Any]:
    """Return an endpoint. Raise `webhook_not_found`."""
    return _to_response(uow, get_endpoint(uow, endpoint_id))


def create(uow: UnitOfWork, wanted: NewWebhook) -> dict[str, Any]:
    """Create an endpoint and return it with its secret, which is shown only once.

    Raise `invalid_parameter`, and `invalid_state` if the organisation has too many.
    """
    _check(uow, {"url": wanted.url, "events": wanted.events})
    _require_below_limit(uow)
    secret = new_secret()
    endpoint = WebhookEndpoint(
        id=new_id("whk"),
        organization_id=uow.organization,
        name=wanted.name,
        url=wanted.url,
        events=wanted.events,
        remind_before=sorted(wanted.remind_before),
        enabled=True,
        created_by=uow.actor.as_json(),
        created_at=uow.now,
        updated_at=uow.now,
    )
    endpoint.encrypted_secret = _encrypt(uow, endpoint, secret)
    uow.session.add(endpoint)
    uow.session.flush()
    add_destination(uow, endpoint.id, "webhook", remind_before=endpoint.remind_before)
    uow.audit("webhook.created", target_of(endpoint), before=None, after=_audit_snapshot(endpoint))
    return {"webhook": _to_response(uow, endpoint), "secret": secret}


def change(
    uow: UnitOfWork, endpoint_id: str, changes: Mapping[str, Any], if_match: str | None = None
) -> dict[str, Any]:
    """Change the given properties of an endpoint; one that is enabled gets only what happens from then on.

    Raise `webhook_not_found`, `precondition_failed` and `invalid_parameter`.
    """
    endpoint = get_endpoint(uow, endpoint_id, lock=True)
    require_match(if_match, lambda: _to_response(uow, endpoint))
    _check(uow, changes)
    before = _audit_snapshot(endpoint)
    address = endpoint.url
    for name in ("name", "url", "events"):
        if name in changes:
            setattr(endpoint, name, changes[name])
    if endpoint.url != address:
        endpoint.failing_since = endpoint.last_failure_at = None
    if "remind_before" in changes:
        endpoint.remind_before = sorted(changes["remind_before"])
        change_reminders(uow, endpoint.id, endpoint.remind_before)
    if changes.get("enabled", endpoint.enabled) != endpoint.enabled:
        if endpoint.enabled:
            disable(uow, endpoint, "by_person")
        else:
            _enable(uow, endpoint)
    old, new = differences(before, _audit_snapshot(endpoint))
    if new or endpoint.url != address:
        endpoint.updated_at = uow.now
        changed = endpoint.url != address
        uow.audit("webhook.updated", target_of(endpoint), before=old, after=new, addressChanged=changed)
    return _to_response(uow, endpoint)


def rotate(uow: UnitOfWork, endpoint_id: str, grace_seconds: int) -> dict[str, Any]:
    """Give an endpoint a new secret, and return it; the previous one signs as well until the grace period ends.

    Raise `webhook_not_found`.
    """
    endpoint = get_endpoint(uow, endpoint_id, lock=True)
    before, ends_at = endpoint.previous_secret_ends_at, uow.now + timedelta(seconds=grace_seconds)
    endpoint.encrypted_previous_secret = endpoint.encrypted_secret if grace_seconds else None
    endpoint.previous_secret_ends_at = ends_at if grace_seconds else None
    secret = new_secret()
    endpoint.encrypted_secret = _encrypt(uow, endpoint, secret)
    endpoint.updated_at = uow.now
    old, new = {"previousSecretEndsAt": before}, {"previousSecretEndsAt": ends_at}
    uow.audit("webhook.secret_rotated", target_of(endpoint), before=old, after=new)
    return {"webhook": _to_response(uow, endpoint), "secret": secret}


def delete(uow: UnitOfWork, endpoint_id: str) -> None:
    """Delete an endpoint; nothing more is sent to it. Raise `webhook_not_found`."""
    endpoint = get_endpoint(uow, endpoint_id, lock=True)
    uow.audit("webhook.deleted", target_of(endpoint), before=_audit_snapshot(endpoint), after=None)
    disable(uow, endpoint, "by_person")
    resolve_alert(uow, alert_key(endpoint))
    endpoint.deleted_at, endpoint.url = uow.now, ""
    endpoint.encrypted_secret = endpoint.encrypted_previous_secret = None


def get_endpoint(uow: UnitOfWork, endpoint_id: str, *, lock: bool = False) -> WebhookEndpoint:
    """Return an endpoint of the organisation. Raise `webhook_not_found`."""
    query = select(WebhookEndpoint).where(
        WebhookEndpoint.id == endpoint_id,
        WebhookEndpoint.organization_id == uow.organization,
        WebhookEndpoint.deleted_at.is_(None),
    )
    endpoint = uow.session.scalar(query.with_for_update(key_share=True) if lock else query)
    if endpoint is None:
        raise ServiceError("webhook_not_found", f"Webhook {endpoint_id!r} not found in this organisation.")
    return endpoint


def decrypt_secrets(secret_keys: Iterable[bytes], endpoint_id: str, row: Any, now: datetime) -> list[str]:
    """Return the secrets that sign now, the newest first. Raise DecryptionError.

    `row` has the columns of the secrets: an endpoint, or a message that was acquired.
    """
    encrypted = [row.encrypted_secret]
    if row.previous_secret_ends_at is not None and row.previous_secret_ends_at > now:
        encrypted.append(row.encrypted_previous_secret)
    return [decrypt_with_any(secret_keys, USE, endpoint_id, each).decode() for each in encrypted if each is not None]


def disable(uow: UnitOfWork, endpoint: WebhookEndpoint, reason: str) -> None:
    """Disable a locked endpoint; messages that wait are given up, and people can have them sent again.

    `reason` is a `disabledReason` of the API: `by_person`, `gone` or `failing`.
    """
    endpoint.enabled, endpoint.disabled_reason, endpoint.disabled_at = False, reason, uow.now
    remove_destination(uow, endpoint.id)  # waits for the writing of messages, which locks no endpoint
    uow.session.execute(
        update(WebhookMessage)
        .where(WebhookMessage.endpoint_id == endpoint.id, WebhookMessage.due_at.is_not(None))
        .values(due_at=None, last_error_code="disabled", last_error_message=_CANCELLED)
    )


def target_of(endpoint: WebhookEndpoint) -> tuple[str, str, str]:
    """Return an endpoint as the target of an audit entry."""
    return "webhook", endpoint.id, endpoint.name


def alert_key(endpoint: WebhookEndpoint) -> str:
    """Return the key of the alert that an endpoint was disabled."""
    return f"webhook_disabled {endpoint.id}"


def _enable(uow: UnitOfWork, endpoint: WebhookEndpoint) -> None:
    endpoint.enabled, endpoint.disabled_reason, endpoint.disabled_at = True, None, None
    endpoint.failing_since = endpoint.last_failure_at = None
    add_destination(uow, endpoint.id, "webhook", remind_before=endpoint.remind_before)
    resolve_alert(uow, alert_key(endpoint))


def _check(uow: UnitOfWork, given: Mapping[str, Any]) -> None:
    """Raise `invalid_parameter` for an address or for events that are not possible."""
    errors = [_invalid(f"/events/{position}", _UNKNOWN) for position in unknown_events(given.get("events", ()))]
    if "url" in given:
        problem = problem_with(given["url"], loopback=uow.ports[WebhookClient].loopback)
        errors[:0] = [] if problem is None else [_invalid("/url", problem)]
    if errors:
        raise merge_errors(errors)


def _invalid(path: str, problem: str) -> ServiceError:
    message = f"{path.removeprefix('/').replace('/', ' ')} {problem}."
    return field_error(path, problem, message=message)


def _require_below_limit(uow: UnitOfWork) -> None:
    lock_current(uow)
    existing = select(func.count()).where(
        WebhookEndpoint.organization_id == uow.organization, WebhookEndpoint.deleted_at.is_(None)
    )
    if uow.session.scalars(existing).one() >= MAX_ENDPOINTS:
        message = f"The organisation has {MAX_ENDPOINTS} webhooks, which is the maximum. Delete one first."
        raise ServiceError("invalid_state", message)


def _encrypt(uow: UnitOfWork, endpoint: WebhookEndpoint, secret: str) -> bytes:
    return encrypt(uow.ports[SecretKey].current, USE, endpoint.id, secret.encode())


def _audit_snapshot(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "origin": origin_of(endpoint.url),
        "events": list(endpoint.events),
        "remindBefore": list(endpoint.remind_before),
        "enabled": endpoint.enabled,
    }


def _to_response(uow: UnitOfWork, endpoint: WebhookEndpoint) -> dict[str, Any]:
    ends_at = endpoint.previous_secret_ends_at
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "url": endpoint.url,
        "events": endpoint.events,
        "remind_before": endpoint.remind_before,
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "disabled_at": endpoint.disabled_at,
        "failing_since": endpoint.failing_since,
        "previous_secret_ends_at": ends_at if ends_at is not None and ends_at > uow.now else None,
        "created_by": endpoint.created_by,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
    }
