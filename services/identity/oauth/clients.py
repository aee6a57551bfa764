"""OAuth clients: their metadata documents, fetched when needed and kept for as long as their `Cache-Control` says."""

import logging
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.dialects.postgresql import insert

from integrations.client_documents import ClientDocuments
from models.oauth import OAuthClient
from rules.access.client_documents import (
    ClientDocument,
    ClientRefusedError,
    freshness,
    is_document_address,
    parse_document,
    read_document,
)
from rules.access.oauth import OAuthError
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import throttle

logger = logging.getLogger(__name__)

MAX_STALENESS = timedelta(days=30)
"""How long after it was fetched a document is used that cannot be fetched again."""


def find_client(uow: UnitOfWork, client_id: str, *, overdue: timedelta) -> ClientDocument:
    """Return the client with an id, whose document is fetched without a transaction if it is not fresh.

    A document that expired less than `overdue` ago counts as fresh. Where it cannot be fetched now, the last
    one is used for `MAX_STALENESS`. Raise ClientRefusedError, which says nothing of what its host answers, or
    `rate_limited` after too many failures. A failure is not stored.
    """
    if not is_document_address(client_id):
        raise ClientRefusedError("The client is not identified by the https address of a client metadata document.")
    row = _hold_unblocked(uow, client_id)
    if row is not None and row.document and row.fresh_until and uow.now < row.fresh_until + overdue:
        return read_document(client_id, row.document)
    try:
        attempt = throttle.count_attempt(uow, "client_document", account=client_id, address=uow.caller.address)
    except ServiceError:
        known = _last_known(uow, client_id)
        if known is None:
            raise
        return known
    with uow.outside_transaction():
        fetched = _fetch(uow, client_id)
    uow.refresh_now()
    if fetched is None:
        known = _last_known(uow, client_id)
        if known is not None:
            return known
        host = urlsplit(client_id).hostname
        raise ClientRefusedError(f"The client cannot be used: {host} serves no valid document that describes it.")
    attempt.reset()
    document, lasting = fetched
    values = {"document": document, "fetched_at": uow.now, "fresh_until": uow.now + lasting}
    stored = insert(OAuthClient).values(client_id=client_id, **values)
    uow.session.execute(stored.on_conflict_do_update(index_elements=[OAuthClient.client_id], set_=values))
    _hold_unblocked(uow, client_id)
    return read_document(client_id, document)


def _fetch(uow: UnitOfWork, client_id: str) -> tuple[dict[str, Any], timedelta] | None:
    """Return a client's document and for how long it may be kept; None, and a line in the log, if there is none.

    Strangers may name any host here, so why it failed is not for them.
    """
    try:
        fetched = uow.ports[ClientDocuments].fetch(client_id)
        return parse_document(client_id, fetched.body), freshness(fetched.cache_control)
    except ClientRefusedError as error:
        logger.info("client document at %s: %s", urlsplit(client_id).hostname, error)
        return None


def _last_known(uow: UnitOfWork, client_id: str) -> ClientDocument | None:
    """Return the document as it was fetched last, if that is not too long ago. Raise ClientRefusedError if blocked."""
    row = _hold_unblocked(uow, client_id)
    if row is None or not row.document or row.fetched_at is None or uow.now > row.fetched_at + MAX_STALENESS:
        return None
    return read_document(client_id, row.document)


def hold_client(uow: UnitOfWork, client_id: str) -> OAuthClient | None:
    """Return the row of a client, locked so that its blocking waits for this transaction; None if it is unknown."""
    lock = {"read": True, "key_share": True}
    return uow.session.get(OAuthClient, client_id, with_for_update=lock, populate_existing=True)


def _hold_unblocked(uow: UnitOfWork, client_id: str) -> OAuthClient | None:
    """Return what `hold_client` returns. Raise ClientRefusedError if the client is blocked."""
    row = hold_client(uow, client_id)
    if row is not None and row.blocked_at is not None:
        raise ClientRefusedError("The operator of this service has blocked this client.")
    return row


def require_known_client(uow: UnitOfWork, client_id: str) -> OAuthClient:
    """Return the row of a client. Raise OAuthError `invalid_client` if it was never connected, or is blocked."""
    row = uow.session.get(OAuthClient, client_id)
    if row is None or row.blocked_at is not None:
        raise OAuthError("invalid_client", "The client is unknown or blocked.")
    return row
