"""OAuth clients: their metadata documents, fetched when needed and kept for as long as their `Cache-Control` says."""

from datetime import timedelta
from urllib.parse import urlsplit

from sqlalchemy.dialects.postgresql import insert

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
from services.core.unit_of_work import UnitOfWork
from services.identity import throttle


def find_client(uow: UnitOfWork, client_id: str, *, overdue: timedelta = timedelta()) -> ClientDocument:
    """Return the client with an id, whose document is fetched without a transaction if it is not fresh.

    A document that expired less than `overdue` ago counts as fresh. Raise ClientRefusedError, or `rate_limited` after
    too many fetches. A failure is not stored.
    """
    if not is_document_address(client_id):
        raise ClientRefusedError("The client is not identified by the https address of a client metadata document.")
    row = _hold_unblocked(uow, client_id)
    if row is not None and row.document and row.fresh_until and uow.now < row.fresh_until + overdue:
        return read_document(client_id, row.document)
    host = urlsplit(client_id).hostname
    throttle.count_attempt(uow, "client_document", account=host, address=uow.caller.address)
    with uow.outside_transaction():
        fetched = uow.dependencies.client_documents.fetch(client_id)
        document = parse_document(client_id, fetched.body)
    uow.refresh_now()
    fresh_until = uow.now + freshness(fetched.cache_control)
    values = {"document": document, "fetched_at": uow.now, "fresh_until": fresh_until}
    stored = insert(OAuthClient).values(client_id=client_id, **values)
    uow.session.execute(stored.on_conflict_do_update(index_elements=[OAuthClient.client_id], set_=values))
    _hold_unblocked(uow, client_id)
    return read_document(client_id, document)


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
