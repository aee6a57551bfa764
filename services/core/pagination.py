"""Keyset pagination of lists, with signed cursors.

A cursor holds the position where the last page ended. It is signed and bound to the operation, the organisation and
the filters of its list, so it can be neither forged, nor changed, nor used with another list.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from rules import base64url
from rules.errors import field_error
from services.core.read_context import ReadContext
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork

_TAG_BYTES = 16
_MAX_CURSOR_LENGTH = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Key = ColumnElement[Any] | InstrumentedAttribute[Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: `{"data": [...], "nextCursor": …}`."""

    data: Sequence[Any]
    next_cursor: str | None


def page_of(  # noqa: PLR0913 - a page has this many parameters, and each list passes them once
    uow: UnitOfWork,
    operation: str,
    filters: Any,
    query: Select[*tuple[Any, ...]],
    keys: Sequence[Key],
    *,
    cursor: str | None,
    limit: int,
    ascending: bool = False,
    owner: str | None = None,
) -> Page:
    """Return one page of `query` in the order of `keys`, the last of which is unique.

    Newest first, unless `ascending`. `query` selects one object or several per row. `filters` are the client's filters.
    The list belongs to the organisation, or to the person `owner`. Raise `invalid_cursor` for a foreign cursor.
    """
    bound = (operation, owner or uow.organization, filters)
    if cursor is not None:
        position = read_cursor(uow.ports[CursorSecret].accepted, bound, cursor)
        here = tuple_(*keys)
        query = query.where(here > tuple_(*position) if ascending else here < tuple_(*position))
    ordered = query.order_by(*(key.asc() if ascending else key.desc() for key in keys))
    rows = uow.session.execute(ordered.add_columns(*keys).limit(limit + 1)).all()
    shown = [row[: -len(keys)] for row in rows[:limit]]
    data = [row[0] if len(row) == 1 else row for row in shown]
    if len(rows) <= limit:
        return Page(data, None)
    return Page(data, sign_cursor(uow.ports[CursorSecret].accepted, bound, rows[limit - 1][-len(keys) :]))


def merge_into_page(  # noqa: PLR0913 - a page has this many parameters, and each list passes them once
    uow: UnitOfWork,
    operation: str,
    filters: Any,
    page: Page,
    others: Sequence[Any],
    key_of: Callable[[Any], tuple[Any, ...]],
    *,
    cursor: str | None,
    limit: int,
) -> Page:
    """Return a page of `page_of`, the newest first, with others of the same list that are no rows.

    `key_of` returns the values of the keys of an object, the last of which is unique.
    """
    secrets, bound = uow.ports[CursorSecret].accepted, (operation, uow.organization, filters)
    position = None if cursor is None else read_cursor(secrets, bound, cursor)
    known = {key_of(one) for one in page.data}
    more = [one for one in others if (position is None or key_of(one) < position) and key_of(one) not in known]
    if not more:
        return page
    merged = sorted([*page.data, *more], key=key_of, reverse=True)
    if len(merged) <= limit and page.next_cursor is None:
        return Page(merged, None)
    return Page(merged[:limit], sign_cursor(secrets, bound, key_of(merged[:limit][-1])))


def page_of_listed(uow: UnitOfWork, operation: str, listed: Sequence[Any], cursor: str | None, limit: int) -> Page:
    """Return one page of a fixed list, such as a vocabulary, in its order. Raise `invalid_cursor`."""
    return _page_of_listed(uow.ports[CursorSecret].accepted, (operation, uow.organization, None), listed, cursor, limit)


def page_for_everybody(
    context: ReadContext, operation: str, listed: Sequence[Any], cursor: str | None, limit: int
) -> Page:
    """Return one page of a fixed list that needs neither a credential nor the database. Raise `invalid_cursor`."""
    return _page_of_listed(context.cursor_secrets, (operation, "everybody", None), listed, cursor, limit)


def _page_of_listed(
    secrets: Sequence[bytes], bound: tuple[str, str, Any], listed: Sequence[Any], cursor: str | None, limit: int
) -> Page:
    start = int(read_cursor(secrets, bound, cursor)[0]) if cursor is not None else 0
    end = start + limit
    return Page(listed[start:end], sign_cursor(secrets, bound, [end]) if end < len(listed) else None)


def sign_cursor(secrets: Sequence[bytes], bound: tuple[str, str, Any], position: Sequence[Any]) -> str:
    """Return the cursor of the page after `position` (strings, numbers, aware datetimes).

    The first secret signs. `bound` is what the cursor belongs to: operation, organisation or person, filters.
    """
    payload = orjson.dumps([_to_json(value) for value in position])
    return base64url.encode(_tag(secrets[0], bound, payload) + payload)


def read_cursor(secrets: Sequence[bytes], bound: tuple[str, str, Any], cursor: str) -> tuple[Any, ...]:
    """Return the position in a cursor of this list. Raise `invalid_cursor`."""
    payload = _verified(secrets, bound, cursor)
    if payload is None:
        message = "Invalid cursor: it was not issued by this endpoint for this organisation and these filters"
        raise field_error("cursor", message, message=message, code="invalid_cursor")
    return tuple(_from_json(value) for value in orjson.loads(payload))


def _verified(secrets: Sequence[bytes], bound: tuple[str, str, Any], cursor: str) -> bytes | None:
    """Return the payload of a cursor, or None if it was not signed for this list."""
    if len(cursor) > _MAX_CURSOR_LENGTH or not cursor.isascii():
        return None
    try:
        raw = base64url.decode(cursor)
    except ValueError:
        return None
    tag, payload = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    signed = any(hmac.compare_digest(tag, _tag(secret, bound, payload)) for secret in secrets)
    return payload if signed else None


def _tag(secret: bytes, bound: tuple[str, str, Any], payload: bytes) -> bytes:
    operation, organization_id, filters = bound
    if is_dataclass(filters) and not isinstance(filters, type):
        filters = asdict(filters)
    about = orjson.dumps([operation, organization_id, _to_json(filters)], option=orjson.OPT_SORT_KEYS, default=str)
    return hmac.digest(secret, len(about).to_bytes(4) + about + payload, "sha256")[:_TAG_BYTES]


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"microseconds": (value - _EPOCH) // timedelta(microseconds=1)}
    if isinstance(value, Mapping):
        return {key: _to_json(item) for key, item in value.items() if item is not None}
    return [_to_json(item) for item in value] if isinstance(value, list | tuple) else value


def _from_json(value: Any) -> Any:
    return _EPOCH + timedelta(microseconds=value["microseconds"]) if isinstance(value, dict) else value
