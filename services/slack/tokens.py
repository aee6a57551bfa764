"""Tokens of workspaces: stored encrypted, refreshed if Slack rotates them, and revoked after a disconnection.

Connections are the rows of the queue. A removed one is kept until Slack has revoked its token, and then deleted.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

import orjson
from sqlalchemy import delete, select

from integrations.slack import Slack, SlackError, SlackTokenError, SlackUnavailableError
from integrations.slack.client import CALL_TIMEOUT, SlackTokens
from models.slack import SlackConnection
from rules.access.permissions import SYSTEM
from services.core.encryption import DecryptionError, decrypt_with_any, encrypt
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, RetryPolicy, WorkQueue
from services.slack.connection_loss import mark_lost

logger = logging.getLogger(__name__)

REFRESH_MARGIN = timedelta(hours=2)
"""How long before its end a token is refreshed."""
USE = "slack"
"""The purpose of the encryption of tokens."""
CONNECTIONS = WorkQueue(
    "slack_tokens",
    SlackConnection,
    select(
        SlackConnection.id,
        SlackConnection.organization_id,
        SlackConnection.team_id,
        SlackConnection.encrypted_tokens,
        SlackConnection.removed_at,
        SlackConnection.attempts,
    ).order_by(SlackConnection.due_at, SlackConnection.id),
    retry=RetryPolicy(timedelta(seconds=10), timedelta(hours=1)),
    call_timeout=timedelta(seconds=CALL_TIMEOUT + 2),
)


def encrypt_tokens(secret_key: bytes, connection_id: str, tokens: SlackTokens) -> bytes:
    """Return the tokens of a connection, encrypted."""
    stored = {"access_token": tokens.access_token, "refresh_token": tokens.refresh_token}
    return encrypt(secret_key, USE, connection_id, orjson.dumps(stored))


def decrypt_tokens(secret_keys: Iterable[bytes], connection_id: str, encrypted: bytes | None) -> SlackTokens | None:
    """Return the tokens of a connection; None if they were erased, or encrypted under another SECRET_KEY."""
    if encrypted is None:
        return None
    try:
        return SlackTokens(**orjson.loads(decrypt_with_any(secret_keys, USE, connection_id, encrypted)))
    except DecryptionError:
        return None


def access_token_of(uow: UnitOfWork, connection: SlackConnection) -> str | None:
    """Return the token with which our bot acts in a workspace; None as for `decrypt_tokens`."""
    tokens = decrypt_tokens(uow.ports[SecretKey].accepted, connection.id, connection.encrypted_tokens)
    return tokens.access_token if tokens else None


def next_refresh(now: datetime, tokens: SlackTokens) -> datetime | None:
    """Return when new tokens are to be refreshed; None if Slack does not rotate them."""
    if tokens.refresh_token is None or tokens.expires_in is None:
        return None
    return now + max(timedelta(seconds=tokens.expires_in) - REFRESH_MARGIN, timedelta(minutes=1))


def renew_tokens(uow_factory: UnitOfWorkFactory) -> bool:
    """Refresh or revoke the token of one connection; False if none is due or Slack is not configured."""
    slack = uow_factory.ports.find(Slack)
    if slack is None:
        return False
    return CONNECTIONS.work_on_next(uow_factory, partial(_renew, uow_factory, slack), wakes=CONNECTIONS.kind)


def _renew(uow_factory: UnitOfWorkFactory, slack: Slack, lease: Lease) -> None:
    tokens = decrypt_tokens(uow_factory.ports[SecretKey].accepted, lease.row.id, lease.row.encrypted_tokens)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        lease.require(uow)
    try:
        if lease.row.removed_at is not None:
            _revoke(uow_factory, slack, lease, tokens)
        else:
            _refresh(uow_factory, slack, lease, tokens)
    except SlackError as error:
        _retry(uow_factory, lease, error)


def _revoke(uow_factory: UnitOfWorkFactory, slack: Slack, lease: Lease, tokens: SlackTokens | None) -> None:
    """Revoke a token and delete its row, also if Slack has forgotten the token already."""
    if tokens is not None:
        try:
            slack.revoke_token(tokens.access_token)
        except SlackTokenError:
            logger.info("the token of %s was revoked already", lease.row.team_id)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        lease.require(uow)
        uow.session.execute(delete(SlackConnection).where(SlackConnection.id == lease.row.id))


def _refresh(uow_factory: UnitOfWorkFactory, slack: Slack, lease: Lease, tokens: SlackTokens | None) -> None:
    """Refresh a token; if Slack refuses that, the connection is lost."""
    caller = Caller(lease.row.organization_id, SYSTEM, "slack")
    refreshed, why = None, "no_refresh_token"
    if tokens is not None and tokens.refresh_token is not None:
        try:
            refreshed = slack.refresh_token(tokens.refresh_token)
        except SlackUnavailableError:
            raise
        except SlackError as error:
            why = error.code
    with uow_factory.open(caller) as uow:
        lease.require(uow)
        connection = uow.session.get_one(SlackConnection, lease.row.id, populate_existing=True)
        if refreshed is None:
            lease.release(uow)
            mark_lost(uow, connection, why)
            return
        connection.encrypted_tokens = encrypt_tokens(uow.ports[SecretKey].current, connection.id, refreshed)
        uow.session.flush()
        lease.release(uow, due_at=next_refresh(uow.now, refreshed))


def _retry(uow_factory: UnitOfWorkFactory, lease: Lease, error: SlackError) -> None:
    logger.warning("slack_tokens: Slack failed for %s: %s", lease.row.team_id, error)
    delay = CONNECTIONS.retry.delay(lease.row.attempts)
    if isinstance(error, SlackUnavailableError) and error.retry_after is not None:
        delay = max(delay, timedelta(seconds=error.retry_after))
    with uow_factory.open(SYSTEM_CALLER) as uow:
        lease.fail(uow, error.code, str(error), uow.now + delay)
