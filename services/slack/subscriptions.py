"""Subscriptions: which channel of the workspace gets messages about what.

A channel has one subscription. It is chosen by a command in the channel, or by its id, which the list of channels has;
whether our bot may post there is seen with the first message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select

from models.notifications import NotificationDestination
from models.slack import SlackConnection, SlackSubscription
from rules.audit.changes import differences
from rules.errors import ServiceError
from rules.freezes.globs import compile_globs
from rules.ids import new_id
from rules.notifications.kinds import UPCOMING
from services.alerts.alerts import resolve_alert
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.events.destinations import add_destination, change_reminders, remove_destination
from services.slack.connection_loss import paused_key, subscription_target

EVENTS = (
    "freeze.started",
    "freeze.ended",
    UPCOMING,
    "exception.requested",
    "exception.decided",
    "freeze.bypassed",
    "enforcement.lost",
)
"""Kinds of notification that channels can get."""
MAX_SUBSCRIPTIONS = 200
"""Channels that an organisation may subscribe."""
DEFAULT_REMINDERS = (60,)
"""Minutes before a window begins."""
_KEYS = (SlackSubscription.created_at, SlackSubscription.id)


@dataclass(frozen=True, slots=True)
class WantedSubscription:
    """The input for a subscription.

    Without `events` and `patterns` it is for all of them, without `remind_before` it has DEFAULT_REMINDERS.
    """

    channel_id: str
    channel_name: str | None = None
    events: Sequence[str] | None = None
    patterns: Sequence[str] | None = None
    remind_before: Sequence[int] | None = None


def list_subscriptions(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of subscriptions, newest first. Raise `invalid_cursor`."""
    query = select(SlackSubscription).where(SlackSubscription.organization_id == uow.organization)
    page = page_of(uow, "list_slack_subscriptions", None, query, _KEYS, cursor=cursor, limit=limit)
    return Page([to_response(row) for row in page.data], page.next_cursor)


def subscribe(uow: UnitOfWork, wanted: WantedSubscription) -> dict[str, Any]:
    """Subscribe a channel; a channel that is subscribed gets these choices instead, and is resumed.

    Raise `invalid_state` if no workspace is connected or too many channels are, and what an invalid pattern raises.
    """
    _require_workspace(uow)
    _check_patterns(wanted.patterns)
    chosen = {
        "channel_name": wanted.channel_name or wanted.channel_id,
        "events": _in_order(EVENTS if wanted.events is None else wanted.events),
        "patterns": None if wanted.patterns is None else list(wanted.patterns),
        "remind_before": sorted(set(DEFAULT_REMINDERS if wanted.remind_before is None else wanted.remind_before)),
    }
    existing = _find_and_lock(uow, SlackSubscription.channel_id == wanted.channel_id)
    if existing is not None:
        if wanted.channel_name is None:
            chosen["channel_name"] = existing.channel_name
        return _change(uow, existing, {**chosen, "state": "active"})
    counted = select(func.count()).where(SlackSubscription.organization_id == uow.organization)
    if uow.session.scalars(counted).one() >= MAX_SUBSCRIPTIONS:
        message = (
            f"The organisation has {MAX_SUBSCRIPTIONS} subscribed channels, which is the maximum. Remove one first."
        )
        raise ServiceError("invalid_state", message)
    subscription = SlackSubscription(
        id=new_id("sls"),
        organization_id=uow.organization,
        channel_id=wanted.channel_id,
        created_by=uow.actor.as_json(),
        created_at=uow.now,
        **chosen,
    )
    uow.session.add(subscription)
    uow.session.flush()
    add_destination(uow, subscription.id, "slack", remind_before=_reminders(subscription))
    uow.audit("slack.subscribed", subscription_target(subscription), before=None, after=_audit_snapshot(subscription))
    return to_response(subscription)


def change(uow: UnitOfWork, subscription_id: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Change a subscription; `state` may be `active`, which resumes a paused one.

    Raise `slack_subscription_not_found`, and what an invalid pattern raises.
    """
    subscription = _lock(uow, subscription_id)
    _check_patterns(changes.get("patterns"))
    changed = dict(changes)
    if "events" in changed:
        changed["events"] = _in_order(changed["events"])
    if "remind_before" in changed:
        changed["remind_before"] = sorted(set(changed["remind_before"]))
    return _change(uow, subscription, changed)


def unsubscribe(uow: UnitOfWork, subscription_id: str) -> None:
    """Remove a subscription. Raise `slack_subscription_not_found`."""
    _remove(uow, _lock(uow, subscription_id))


def remove_all(uow: UnitOfWork) -> None:
    """Remove all subscriptions of the organisation."""
    query = select(SlackSubscription.id).where(SlackSubscription.organization_id == uow.organization)
    for subscription_id in uow.session.scalars(query.order_by(SlackSubscription.id)).all():
        subscription = _find_and_lock(uow, SlackSubscription.id == subscription_id)
        if subscription is not None:
            _remove(uow, subscription)


def _require_workspace(uow: UnitOfWork) -> None:
    """Raise `invalid_state` unless a workspace is connected; its disconnection waits for this transaction."""
    query = select(SlackConnection.id).where(
        SlackConnection.organization_id == uow.organization,
        SlackConnection.removed_at.is_(None),
        SlackConnection.lost_at.is_(None),
    )
    if uow.session.scalar(query.with_for_update(key_share=True)) is None:
        raise ServiceError("invalid_state", "No Slack workspace is connected.")


def _check_patterns(patterns: Sequence[str] | None) -> None:
    if patterns is not None:
        compile_globs(patterns, "repository", "/patterns")


def _change(uow: UnitOfWork, subscription: SlackSubscription, changes: dict[str, Any]) -> dict[str, Any]:
    before = _audit_snapshot(subscription)
    if changes.pop("state", None) == "active" and subscription.paused_at is not None:
        subscription.paused_at = subscription.paused_why = None
        resolve_alert(uow, paused_key(subscription))
    for name, value in changes.items():
        setattr(subscription, name, value)
    uow.session.flush()
    change_reminders(uow, subscription.id, _reminders(subscription))
    old, new = differences(before, _audit_snapshot(subscription))
    if new:
        uow.audit("slack.subscription_updated", subscription_target(subscription), before=old, after=new)
    return to_response(subscription)


def _remove(uow: UnitOfWork, subscription: SlackSubscription) -> None:
    before = _audit_snapshot(subscription)
    remove_destination(uow, subscription.id)
    resolve_alert(uow, paused_key(subscription))
    uow.session.delete(subscription)
    uow.session.flush()
    uow.audit("slack.unsubscribed", subscription_target(subscription), before=before, after=None)


def _lock(uow: UnitOfWork, subscription_id: str) -> SlackSubscription:
    found = _find_and_lock(uow, SlackSubscription.id == subscription_id)
    if found is None:
        raise ServiceError("slack_subscription_not_found", "There is no such subscription of a Slack channel.")
    return found


def _find_and_lock(uow: UnitOfWork, condition: ColumnElement[bool]) -> SlackSubscription | None:
    """Return a subscription, or None. Its destination is locked first, in the order in which events are dispatched."""
    query = select(SlackSubscription).where(SlackSubscription.organization_id == uow.organization, condition)
    found = uow.session.scalars(query).one_or_none()
    if found is not None:
        destination = select(NotificationDestination.id).where(NotificationDestination.id == found.id)
        uow.session.execute(destination.with_for_update())
    return uow.session.scalars(query.with_for_update(), execution_options={"populate_existing": True}).one_or_none()


def _reminders(subscription: SlackSubscription) -> list[int]:
    """Return how many minutes before a window the channel gets a message; none unless it is subscribed to windows."""
    return subscription.remind_before if UPCOMING in subscription.events else []


def _in_order(events: Sequence[str]) -> list[str]:
    return [event for event in EVENTS if event in events]


def _audit_snapshot(subscription: SlackSubscription) -> dict[str, Any]:
    """Return what the audit log shows of a subscription."""
    return {
        "channel": subscription.channel_id,
        "channelName": subscription.channel_name,
        "events": list(subscription.events),
        "patterns": subscription.patterns,
        "remindBefore": list(subscription.remind_before),
        "state": subscription.state,
    }


def to_response(subscription: SlackSubscription) -> dict[str, Any]:
    """Return a subscription as the API shows it."""
    return {
        "id": subscription.id,
        "channel_id": subscription.channel_id,
        "channel_name": subscription.channel_name,
        "events": subscription.events,
        "patterns": subscription.patterns,
        "remind_before": subscription.remind_before,
        "state": subscription.state,
        "paused_reason": subscription.paused_why,
        "created_by": subscription.created_by,
        "created_at": subscription.created_at,
    }
