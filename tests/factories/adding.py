"""How rows are added, and what values they are given where a test does not care."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha1
from typing import Any, TypeVar, cast

from sqlalchemy import Column, Insert, Table, insert
from sqlalchemy.orm import Session, make_transient_to_detached

from models.base import Base
from services.core.clock import whole_milliseconds

SYSTEM = {"type": "system", "id": None, "name": "Change-Freeze Service"}
Row = TypeVar("Row", bound=Base)
numbers = itertools.count(1001)


def now() -> datetime:
    """Return the present in the precision that the service keeps."""
    return whole_milliseconds(datetime.now(UTC))


_ANY: dict[type, Callable[[], Any]] = {
    datetime: now,
    str: lambda: "x",
    bytes: lambda: b"x",
    int: lambda: 1,
    object: dict,
    list: list,
}
"""What a column of a type gets; that of JSON is `object`."""


def sha(seed: object) -> str:
    """Return a commit's id, always the same for the same seed."""
    return sha1(str(seed).encode(), usedforsecurity=False).hexdigest()


def added(session: Session, row: Row) -> Row:
    """Insert a row at once, as a flush does; SQLAlchemy's unit of work takes twice as long for a single row.

    A column that needs a value, and that nobody has given one, gets any: the present, or a text of one letter.
    """
    session.flush()
    attributes, given = vars(row), {}
    statement, columns = _insertion(type(row))
    for column in columns:
        value = attributes.get(column.key)
        if value is not None or (column.type.should_evaluate_none and column.key in attributes):
            given[column.key] = value
        elif column.server_default is not None:
            attributes.pop(column.key, None)  # is read when it is needed
        elif column.nullable or column.default is not None or column.autoincrement is True:
            attributes[column.key] = None
        else:
            attributes[column.key] = given[column.key] = _ANY[column.type.python_type]()
    session.connection().execute(statement, given)
    make_transient_to_detached(row)
    session.add(row)
    return row


@cache
def _insertion(model: type[Base]) -> tuple[Insert, list[Column[Any]]]:
    table = cast(Table, model.__table__)
    return insert(table), list(table.columns)
