"""Delivery of messages: each is posted once, and updated when what it shows has changed.

A channel gets its messages in order, one a second at most. A call that had no answer may have posted: it is tried once
more, and then given up. What Slack refuses decides what else ends: the connection, the subscription, or one message.
No transaction is open during a call.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.orm import aliased

from integrations.slack import (
    Slack,
    SlackChannelError,
    SlackContentError,
    SlackError,
    SlackScopeError,
    SlackTokenError,
    SlackUnavailableError,
)
from integrations.slack.client import CALL_TIMEOUT
from models.slack import SlackMessage, SlackSubscription
from rules.access.permissions import SYSTEM
from rules.slack.blocks import Message
from rules.slack.notices import render
from rules.slack.pages import Pages
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, RetryPolicy, WorkQueue
from services.slack.connection_loss import mark_lost, pause_subscription, record_missing_scope
from services.slack.connections import find_connection
from services.slack.notices import JOB, PAUSE
from services.slack.tokens import access_token_of

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 20
"""They take more than an hour."""
SCOPE_RETRY = timedelta(hours=1)
"""How long messages wait for a scope that the app lacks."""

_WAITING = aliased(SlackMessage)
MESSAGES = WorkQueue(
    JOB,
    SlackMessage,
    select(
        SlackMessage.id,
        SlackMessage.organization_id,
        SlackMessage.subscription_id,
        SlackMessage.kind,
        SlackMessage.facts,
        SlackMessage.useful_until,
        SlackMessage.reply_to,
        SlackMessage.ts,
        SlackMessage.attempts,
        SlackMessage.last_error_code,
    )
    .where(
        # The first of its channel. "No earlier one exists" would compare all that wait with each other.
        tuple_(SlackMessage.subscription_id, SlackMessage.position).in_(
            select(_WAITING.subscription_id, func.min(_WAITING.position))
            .where(_WAITING.due_at.is_not(None))
            .group_by(_WAITING.subscription_id)
        )
    )
    .order_by(SlackMessage.due_at, SlackMessage.position),
    lease=timedelta(seconds=30),
    retry=RetryPolicy(timedelta(seconds=5), timedelta(minutes=5)),
    call_timeout=timedelta(seconds=2 * CALL_TIMEOUT + 2),
)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a message is posted."""

    token: str
    channel_id: str
    thread_ts: str | None
    """The `ts` of the message in whose thread it is posted."""


def send_due(uow_factory: UnitOfWorkFactory) -> bool:
    """Post or update one message; False if none is due or Slack is not configured."""
    slack = uow_factory.ports.find(Slack)
    if slack is None:
        return False
    return MESSAGES.work_on_next(uow_factory, partial(_deliver, uow_factory, slack), wakes=JOB)


def _deliver(uow_factory: UnitOfWorkFactory, slack: Slack, lease: Lease) -> None:
    message = lease.row
    with uow_factory.open(_caller(lease)) as uow:
        lease.require(uow)
        target = _target_of(uow, lease)
        if target is None:
            lease.fail(uow, "not_connected", "the workspace or the channel is not connected", None)
            return
        if message.ts is None and message.useful_until is not None and message.useful_until <= uow.now:
            lease.fail(uow, "expired", "it is too old to be useful", None)
            return
    shown = render(message.kind, message.facts, Pages(uow_factory.ports[WebOrigin].url, message.organization_id))
    try:
        ts = _send(slack, lease, target, shown)
    except SlackContentError:
        _send_text(uow_factory, slack, lease, target, shown.text)
    except SlackError as error:
        _record_refusal(uow_factory, lease, error)
    else:
        _record_sent(uow_factory, lease, ts)


def _send_text(uow_factory: UnitOfWorkFactory, slack: Slack, lease: Lease, target: _Target, text: str) -> None:
    """Send only the text of a message, because Slack does not accept its blocks, which is our mistake."""
    logger.error("slack: the blocks of message %s (%s) are not accepted", lease.row.id, lease.row.kind)
    try:
        ts = _send(slack, lease, target, Message(text, ()))
    except SlackError as error:
        _record_refusal(uow_factory, lease, error)
    else:
        _record_sent(uow_factory, lease, ts)


def _send(slack: Slack, lease: Lease, target: _Target, shown: Message) -> str:
    """Post or update a message, and return its `ts`, by which Slack identifies it in the channel."""
    posted: str | None = lease.row.ts
    if posted is None:
        return slack.post_message(target.token, target.channel_id, shown.text, shown.blocks, thread_ts=target.thread_ts)
    slack.update_message(target.token, target.channel_id, posted, shown.text, shown.blocks)
    return posted


def _caller(lease: Lease) -> Caller:
    return Caller(lease.row.organization_id, SYSTEM, "slack")


def _target_of(uow: UnitOfWork, lease: Lease) -> _Target | None:
    """Return where the message is posted; None if it cannot be."""
    subscription = uow.session.get(SlackSubscription, lease.row.subscription_id)
    connection = find_connection(uow)
    if subscription is None or subscription.paused_at is not None or connection is None:
        return None
    token = None if connection.lost_at is not None else access_token_of(uow, connection)
    if token is None:
        return None
    parent = select(SlackMessage.ts).where(SlackMessage.id == lease.row.reply_to)
    return _Target(token, subscription.channel_id, uow.session.scalar(parent) if lease.row.reply_to else None)


def _record_sent(uow_factory: UnitOfWorkFactory, lease: Lease, ts: str) -> None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if lease.release(uow):
            sent = update(SlackMessage).where(SlackMessage.id == lease.row.id)
            uow.session.execute(sent.values(ts=ts, sent_at=uow.now))
            _delay(uow, uow.now + PAUSE, subscription_id=lease.row.subscription_id)


def _record_refusal(uow_factory: UnitOfWorkFactory, lease: Lease, error: SlackError) -> None:
    """Record why a message was not sent, and what the error says of the connection or the channel."""
    message = lease.row
    logger.warning("slack: message %s (%s) was not sent: %s", message.id, message.kind, error.code)
    with uow_factory.open(_caller(lease)) as uow:
        if isinstance(error, SlackUnavailableError):
            _retry(uow, lease, error)
            return
        if isinstance(error, SlackScopeError):
            connection = find_connection(uow, lock=True)
            if connection is not None:
                record_missing_scope(uow, connection, error.needed)
            lease.fail(uow, error.code, str(error), uow.now + SCOPE_RETRY)
            return
        if isinstance(error, SlackTokenError):
            connection = find_connection(uow, lock=True)
            if connection is not None:
                mark_lost(uow, connection, error.code)
        elif isinstance(error, SlackChannelError):
            subscription = uow.session.get(SlackSubscription, message.subscription_id, with_for_update=True)
            if subscription is not None:
                pause_subscription(uow, subscription, error.code)
        lease.fail(uow, error.code, str(error), None)


def _retry(uow: UnitOfWork, lease: Lease, error: SlackUnavailableError) -> None:
    """Try a message again later; if Slack limits our requests, all channels of the workspace wait as long."""
    message = lease.row
    unanswered = "no_answer" in {error.code, message.last_error_code}
    if message.ts is None and error.code == message.last_error_code == "no_answer":
        lease.fail(uow, "no_answer", "Slack gave no answer twice; the message may have been posted", None)
        return
    if message.attempts + 1 >= MAX_ATTEMPTS:
        lease.fail(uow, error.code, str(error), None)
        return
    delay = MESSAGES.retry.delay(message.attempts)
    if error.retry_after is not None:
        delay = timedelta(seconds=error.retry_after)
        _delay(uow, uow.now + delay, organization_id=message.organization_id)
    counted = error.code != "busy"  # our own limit of simultaneous calls
    lease.fail(uow, "no_answer" if unanswered else error.code, str(error), uow.now + delay, counted=counted)


def _delay(uow: UnitOfWork, until: datetime, **of: str) -> None:
    """Have the messages of a channel, or of an organisation, wait until a time."""
    waiting = (
        update(SlackMessage).filter_by(**of).where(SlackMessage.due_at < until, SlackMessage.lease_until.is_(None))
    )
    uow.session.execute(waiting.values(due_at=until).execution_options(synchronize_session=False))
