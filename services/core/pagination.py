"""Pages of lists: keyset pagination, and the signed cursors that lead from one page to the next.

A cursor holds where the last page ended. It is signed, and bound to the operation, the organisation and the filters
of its list, so that it can neither be made, nor changed, nor taken along to another list.
"""

import base64
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork

_TAG_BYTES = 16
_LONGEST = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Key = ColumnElement[Any] | InstrumentedAttribute[Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: `{"data": [...], "nextCursor": …}`."""

    data: Sequence[Any]
    next_cursor: str | None


def page_of(  # noqa: PLR0913 - a page is this many facts, and every list names them once
    uow: UnitOfWork,
    operation: str,
    filters: Any,
    query: Select[*tuple[Any, ...]],
    keys: Sequence[Key],
    *,
    cursor: str | None,
    limit: int,
    ascending: bool = False,
    whose: str | None = None,
) -> Page:
    """Return one page of `query` in the order of `keys`, the last of which tells any two rows apart.

    Newest first, unless `ascending`. A row is what the query selects: one object, or a tuple of several. `filters`
    is whatever the client narrowed the list by. The list is the organisation's, unless `whose` names the person that
    it is of. Raises `invalid_cursor`.
    """
    bound = (operation, whose or uow.organization, filters)
    if cursor is not None:
        position = open_cursor(uow.dependencies.cursor_secret, bound, cursor)
        here = tuple_(*keys)
        query = query.where(here > tuple_(*position) if ascending else here < tuple_(*position))
    ordered = query.order_by(*(key.asc() if ascending else key.desc() for key in keys))
    rows = uow.session.execute(ordered.add_columns(*keys).limit(limit + 1)).all()
    shown = [row[: -len(keys)] for row in rows[:limit]]
    data = [row[0] if len(row) == 1 else row for row in shown]
    if len(rows) <= limit:
        return Page(data, None)
    return Page(data, sign_cursor(uow.dependencies.cursor_secret, bound, rows[limit - 1][-len(keys) :]))


def page_of_listed(uow: UnitOfWork, operation: str, listed: Sequence[Any], cursor: str | None, limit: int) -> Page:
    """Return one page of what is known without a query, such as a vocabulary, in its order; raises `invalid_cursor`."""
    secret, bound = uow.dependencies.cursor_secret, (operation, uow.organization, None)
    start = int(open_cursor(secret, bound, cursor)[0]) if cursor is not None else 0
    end = start + limit
    return Page(listed[start:end], sign_cursor(secret, bound, [end]) if end < len(listed) else None)


def sign_cursor(secret: bytes, bound: tuple[str, str, Any], position: Sequence[Any]) -> str:
    """Return the cursor of the page after `position` (texts, numbers, aware instants).

    `bound` is what the cursor belongs to: operation, organisation (or person), filters.
    """
    payload = orjson.dumps([_plain(value) for value in position])
    return base64.urlsafe_b64encode(_tag(secret, bound, payload) + payload).rstrip(b"=").decode()


def open_cursor(secret: bytes, bound: tuple[str, str, Any], cursor: str) -> tuple[Any, ...]:
    """Return the position that a cursor of this very list holds; raises `invalid_cursor`."""
    payload = _verified(secret, bound, cursor)
    if payload is None:
        message = "cursor was not issued by this endpoint for this organisation and these filters"
        raise ServiceError("invalid_cursor", message, details=(Detail("cursor", message, "invalid_cursor"),))
    return tuple(_typed(value) for value in orjson.loads(payload))


def _verified(secret: bytes, bound: tuple[str, str, Any], cursor: str) -> bytes | None:
    """Return what a cursor holds, or None when it was not signed for this list."""
    if len(cursor) > _LONGEST or not cursor.isascii():
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    tag, payload = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    return payload if hmac.compare_digest(tag, _tag(secret, bound, payload)) else None


def _tag(secret: bytes, bound: tuple[str, str, Any], payload: bytes) -> bytes:
    operation, organization_id, filters = bound
    if is_dataclass(filters) and not isinstance(filters, type):
        filters = asdict(filters)
    about = orjson.dumps([operation, organization_id, _plain(filters)], option=orjson.OPT_SORT_KEYS, default=str)
    return hmac.digest(secret, len(about).to_bytes(4) + about + payload, "sha256")[:_TAG_BYTES]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"microseconds": (value - _EPOCH) // timedelta(microseconds=1)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _typed(value: Any) -> Any:
    return _EPOCH + timedelta(microseconds=value["microseconds"]) if isinstance(value, dict) else value
