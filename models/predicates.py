"""The parts that a predicate of a model is made of: each takes the values of a row, or the columns of a query.

A hybrid method of a model that is written in them has one body, which Python evaluates for a row in memory and
SQLAlchemy turns into SQL for a query. The annotations of results name the types that a row gives.
"""

from collections.abc import Hashable
from datetime import datetime
from typing import Any, LiteralString, cast

import sqlalchemy
from sqlalchemy import literal_column
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.elements import SQLCoreOperations

Condition = bool | SQLCoreOperations[bool]
"""What a predicate returns: of a row, or as an expression of SQL."""

TEXT_NOW: Any = literal_column(":now")
"""The present instant in a condition that `as_text` renders; in other conditions it is `models.queries.NOW`."""
UNSEEN_NOW: Any = literal_column("(SELECT CAST(:now AS timestamptz))")
"""The same in a condition of statements that join much: the planner does not see it, as `unseen_array` says."""


def and_(*conditions: Any) -> bool:
    """Return whether all conditions hold."""
    return _sql(sqlalchemy.and_(*conditions)) if any(map(_is_sql, conditions)) else all(conditions)


def or_(*conditions: Any) -> bool:
    """Return whether one of the conditions holds."""
    return _sql(sqlalchemy.or_(*conditions)) if any(map(_is_sql, conditions)) else any(conditions)


def not_(condition: Any, /) -> bool:
    """Return whether the condition does not hold."""
    return _sql(sqlalchemy.not_(condition)) if _is_sql(condition) else not condition


def is_null(value: object) -> bool:
    """Return whether there is no value."""
    return _sql(cast("Any", value).is_(None)) if _is_sql(value) else value is None


def is_value(value: Hashable, expected: Hashable) -> bool:
    """Return whether a value is the expected one; an absent value is not, and never unknown."""
    if _is_sql(value):
        return _sql(cast("Any", value).is_not_distinct_from(expected))
    return value == expected


def is_ahead(end: datetime | None, now: datetime) -> bool:
    """Return whether an end is still to come; an absent end never comes."""
    if _is_sql(end):
        column: Any = end
        return _sql(sqlalchemy.or_(column.is_(None), column > now))
    return end is None or end > now


def unseen_array(parameter: LiteralString) -> LiteralString:
    """Return an array of texts, the parameter `:parameter`, whose length the planner does not see.

    For a short array a plan looks cheaper than the one for an array of any length, so PostgreSQL would never keep a
    plan of the statement: it would plan it each time, which may take longer than to run it.
    """
    return f"CAST((SELECT CAST(:{parameter} AS text[])) AS text[])"


def as_text(condition: object) -> LiteralString:
    """Return a condition as a part of a statement that is written as text, with its parameters as `:name`."""
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    compiled = cast("Any", condition).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return f"({compiled})"


def _is_sql(value: object) -> bool:
    return isinstance(value, SQLCoreOperations)


def _sql(condition: object) -> bool:
    return cast("bool", condition)
