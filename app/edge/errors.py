"""The error envelope of every non-2xx response, and the mapping from exceptions to it.

Below the prefix of the compatibility API an error has the older shape, whatever its cause.

Status, type and documentation URL follow from the code, by the contract's error catalogue. An exception that is no
ServiceError is an unavailable or a busy database (503, safe to retry), or a bug of ours (500; only the log says more).
"""

import logging
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
import psycopg
import sqlalchemy.exc

from app.database_connections import DatabaseNotReadyError
from app.edge.request_context import Reply, RequestContext
from rules.errors import Detail, MethodNotAllowedError, ServiceError
from rules.time.instants import format_instant
from schemas.contract import Contract, ErrorCode

logger = logging.getLogger(__name__)

ErrorPage = Callable[[str, str, int, str, str], tuple[Mapping[str, str], str] | None]
"""Returns headers and HTML of an error by path, `Accept`, status, message and request id; None where it is JSON."""
JSON = (b"content-type", b"application/json")
PRIVATE_NO_STORE = (b"cache-control", b"private, no-store")
DATABASE_RETRY_AFTER_SECONDS = 1
_CHALLENGES = {
    "missing_credentials": b'Bearer realm="change-freeze"',
    "invalid_token": b'Bearer realm="change-freeze", error="invalid_token"',
    "token_expired": b'Bearer realm="change-freeze", error="invalid_token", error_description="expired"',
}
_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
)
_BUSY_SQLSTATES = frozenset({"40001", "40P01", "55P03", "57014"})
"""Serialization failure, deadlock, a lock that was not granted in time, a statement that took too long."""


class ErrorMapper:
    """Maps exceptions to responses."""

    def __init__(self, contract: Contract, docs_url: str, page: ErrorPage | None = None) -> None:
        """Map errors to JSON, or to the HTML of `page` where no operation is called."""
        self._catalogue = contract.errors
        self._page = page
        self._types = {row.status: row.type for row in contract.errors.values()}
        self._docs_url = docs_url.rstrip("/")
        self._classic_prefix = contract.classic_prefix

    def reply(self, error: Exception, request: RequestContext) -> Reply:
        """Return the response for `error`, and log it if it is unexpected."""
        known = self.to_service_error(error, request)
        if request.scope["path"].startswith(self._classic_prefix):
            return self._classic(known, request.request_id)
        reply = self.envelope(known, request.request_id)
        return self._as_page(reply, known, request) or reply

    def to_service_error(self, error: Exception, request: RequestContext) -> ServiceError:
        """Return `error` as a ServiceError whose code is in the catalogue."""
        if isinstance(error, ServiceError):
            if error.code in self._catalogue:
                return error
            logger.error("code %s is not in the catalogue", error.code, extra=_log_fields(request))
        elif (found := database_error(error)) is not None:
            cause = getattr(error, "orig", error)
            logger.warning("%s: %s", found.code, type(cause).__name__, extra=_log_fields(request))
            return found
        logger.error("request failed", exc_info=error, extra=_log_fields(request))
        return ServiceError("internal_error", "Something went wrong on our side. Freezes are unchanged.")

    def envelope(self, error: ServiceError, request_id: str) -> Reply:
        """Return the response for an error whose code is in the catalogue."""
        row = self._catalogue[error.code]
        status = _status(row, error)
        error_type = row.type if status == row.status else self._types[status]
        content: dict[str, Any] = {"type": error_type, "code": error.code, "message": error.message}
        if error.details:
            content["details"] = [_row(detail) for detail in error.details]
        content["docsUrl"] = f"{self._docs_url}/errors#{error.code}"
        content["requestId"] = request_id
        body = orjson.dumps({"error": content}, default=str)
        return Reply(status, [JSON, *_headers(error, status)], body, code=error.code)

    def _as_page(self, reply: Reply, error: ServiceError, request: RequestContext) -> Reply | None:
        """Return the reply as a page, if a browser requests one."""
        if self._page is None or request.operation_id is not None:
            return None
        accept = (request.header(b"accept") or b"").decode("latin-1")
        found = self._page(request.scope["path"], accept, reply.status, error.message, request.request_id)
        if found is None:
            return None
        headers = [(name.lower().encode(), value.encode()) for name, value in found[0].items()]
        headers += _headers(error, reply.status)
        return Reply(reply.status, headers, found[1].encode(), cacheable=True, code=reply.code)

    def _classic(self, error: ServiceError, request_id: str) -> Reply:
        """Return an error as the compatibility API sends it, whose message is the value of `error`."""
        status = _status(self._catalogue[error.code], error)
        body = orjson.dumps({"error": error.message, "code": error.code, "request_id": request_id})
        headers = [JSON, PRIVATE_NO_STORE, *_headers(error, status)]
        return Reply(status, headers, body, cacheable=True, code=error.code)


def database_error(error: BaseException) -> ServiceError | None:
    """Return the 503 for an error of the database: `busy`, or `database_unavailable`; None for any other error.

    PostgreSQL is busy if other transactions were in the way for too long, of rows or of connections. It is unavailable
    if it was unreachable, shutting down, or refuses connections. The request changed nothing, and may be repeated.
    """
    cause = getattr(error, "orig", error)
    if isinstance(error, sqlalchemy.exc.TimeoutError) or getattr(cause, "sqlstate", None) in _BUSY_SQLSTATES:
        message = "Other requests are changing the same things. Nothing was changed; try again."
        return ServiceError("busy", message, retry_after=DATABASE_RETRY_AFTER_SECONDS)
    if not isinstance(cause, _UNAVAILABLE) and not getattr(error, "connection_invalidated", False):
        return None
    reason = str(cause) if isinstance(cause, DatabaseNotReadyError) else "The service cannot reach its database."
    message = f"{reason} Checks that are written already stay as they are. Try again."
    return ServiceError("database_unavailable", message, retry_after=DATABASE_RETRY_AFTER_SECONDS)


def _row(detail: Detail) -> dict[str, Any]:
    row: dict[str, Any] = {"path": detail.path, "message": detail.message}
    if detail.code:
        row["code"] = detail.code
    for name, value in (detail.extra or {}).items():
        row[name] = format_instant(value) if isinstance(value, datetime) else value
    return row


def _status(row: ErrorCode, error: ServiceError) -> int:
    """Return the status of the code: the second one, if there is one and the error is inside a valid JSON body."""
    if row.also_status and error.details and error.details[0].path.startswith("/"):
        return row.also_status
    return row.status


def _headers(error: ServiceError, status: int) -> list[tuple[bytes, bytes]]:
    headers = []
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(0, math.ceil(error.retry_after))))
    if status == 401:
        headers.append((b"www-authenticate", _CHALLENGES.get(error.code, _CHALLENGES["missing_credentials"])))
    if status == 413:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", error.allow.encode()))
    return headers


def _log_fields(request: RequestContext) -> dict[str, Any]:
    return {"request_id": request.request_id, "operation": request.operation_id}
