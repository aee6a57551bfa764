"""What became of attempts to deliver messages, and what follows from it for messages and endpoints."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, select, text, update

from models.organizations import Organization
from models.outgoing_webhooks import WebhookEndpoint
from rules import web_addresses
from rules.outgoing_webhooks.addresses import origin_of
from rules.outgoing_webhooks.retries import MAX_FAILING, failing_since, retry_at
from rules.web_addresses import WebOrigin
from services.alerts.alerts import Alert, open_alert
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.core.work_queue import Lease
from services.mail.outbox import enqueue_mail
from services.organizations.members import administrator_addresses
from services.outgoing_webhooks.endpoints import alert_key, disable, target_of

logger = logging.getLogger(__name__)

GONE = 410
"""The status with which an endpoint says that it wants no more messages."""
_SAVE = text("""
    UPDATE webhook_messages
    SET attempt_count = attempt_count + 1, last_attempt_at = :now, last_status = :status, last_answer = :answer,
        delivered_at = coalesce(:delivered_at, delivered_at)
    WHERE id = :message
""")
_DISABLED_BECAUSE = {
    "gone": "because its endpoint answered that it is gone (410)",
    "failing": f"because every attempt of the last {MAX_FAILING.days} days failed",
}


class Attempt(NamedTuple):
    """A message that is sent under a lease."""

    lease: Lease
    message: Row[Any]


class Outcome(NamedTuple):
    """What became of an attempt; without an error code the endpoint has taken the message."""

    error_code: str | None
    error: str | None
    status: int | None = None
    answer: str | None = None
    retry_after: str | None = None


def record(uow_factory: UnitOfWorkFactory, outcomes: Sequence[tuple[Attempt, Outcome]]) -> None:
    """Record outcomes. If the lease of a message has ended, another process sends it, and nothing is recorded."""
    delivered = [(attempt, outcome) for attempt, outcome in outcomes if outcome.error_code is None]
    if delivered:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            _record_deliveries(uow, sorted(delivered, key=lambda each: each[0].message.id))
    for attempt, outcome in outcomes:
        if outcome.error_code is not None:
            with uow_factory.open(system_caller(attempt.message.organization_id)) as uow:
                _record_failure(uow, attempt, outcome)


def _record_deliveries(uow: UnitOfWork, delivered: Sequence[tuple[Attempt, Outcome]]) -> None:
    failing = {attempt.message.endpoint_id for attempt, _ in delivered if attempt.message.is_failing}
    _record_recovery(uow, sorted(failing))
    released = [
        (attempt, outcome) for attempt, outcome in delivered if attempt.lease.release(uow, [attempt.message.id])
    ]
    _save(uow, released, delivered_at=uow.now)


def _record_recovery(uow: UnitOfWork, endpoint_ids: Sequence[str]) -> None:
    """Record that endpoints work. They are locked before messages, and in the order of their ids."""
    for endpoint_id in endpoint_ids:
        failing = (WebhookEndpoint.id == endpoint_id, WebhookEndpoint.failing_since.is_not(None))
        uow.session.execute(update(WebhookEndpoint).where(*failing).values(failing_since=None, last_failure_at=None))


def _record_failure(uow: UnitOfWork, attempt: Attempt, outcome: Outcome) -> None:
    message = attempt.message
    locked = select(WebhookEndpoint).where(WebhookEndpoint.id == message.endpoint_id).with_for_update(key_share=True)
    endpoint = uow.session.scalars(locked).one()
    due_at = retry_at(uow.now, message.attempts + 1, outcome.retry_after) if endpoint.enabled else None
    code = outcome.error_code or ""
    if not attempt.lease.fail(uow, code, outcome.error or "", due_at, keys=[message.id]):
        return
    logger.info("webhook %s: attempt %d of %s: %s", endpoint.id, message.attempts + 1, message.id, code)
    _save(uow, [(attempt, outcome)])
    if not endpoint.enabled or endpoint.url != message.url:
        return  # the failure says nothing of the endpoint as it is now
    endpoint.failing_since = failing_since(uow.now, endpoint.failing_since, endpoint.last_failure_at)
    endpoint.last_failure_at = uow.now
    if outcome.status == GONE:
        _disable_and_notify(uow, endpoint, "gone")
    elif uow.now - endpoint.failing_since >= MAX_FAILING:
        _disable_and_notify(uow, endpoint, "failing")


def _save(
    uow: UnitOfWork, outcomes: Sequence[tuple[Attempt, Outcome]], *, delivered_at: datetime | None = None
) -> None:
    """Store status and answer of the attempts in their messages; `delivered_at` None keeps what is stored."""
    rows = [
        {
            "message": attempt.message.id,
            "now": uow.now,
            "status": outcome.status,
            "answer": outcome.answer,
            "delivered_at": delivered_at,
        }
        for attempt, outcome in outcomes
    ]
    if rows:
        uow.session.execute(_SAVE, rows)


def _disable_and_notify(uow: UnitOfWork, endpoint: WebhookEndpoint, reason: str) -> None:
    """Disable an endpoint, open an alert, and mail the administrators."""
    origin = origin_of(endpoint.url)
    disable(uow, endpoint, reason)
    uow.audit(
        "webhook.disabled",
        target_of(endpoint),
        before={"enabled": True, "disabledReason": None},
        after={"enabled": False, "disabledReason": reason},
    )
    url = f"{uow.ports[WebOrigin].url}{web_addresses.WEBHOOK.format(id=endpoint.id)}"
    why = _DISABLED_BECAUSE[reason]
    message = f"The webhook {endpoint.name} ({origin}) was disabled, {why}. Repair it, and enable it again."
    action = ("Open the webhook", url)
    open_alert(uow, Alert(alert_key(endpoint), "webhook_disabled", "warning", target_of(endpoint), message, action))
    organization = uow.session.get_one(Organization, uow.organization)
    for address in administrator_addresses(uow):
        enqueue_mail(
            uow,
            address,
            "webhook_disabled",
            organization=organization.name,
            webhook=endpoint.name,
            why=why,
            url=url,
        )
