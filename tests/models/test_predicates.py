"""The parts of predicates mean the same of values in memory as in SQL, where an absent value is NULL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Boolean, DateTime, String, literal, select
from sqlalchemy.orm import Session

from models.predicates import TEXT_NOW, and_, as_text, is_ahead, is_null, is_value, not_, or_

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
BOOLEANS = [True, False]


def in_sql(session: Session, condition: Any) -> Any:
    return session.scalar(select(condition))


@pytest.mark.parametrize(
    ("end", "expected"), [(None, True), (NOON - MOMENT, False), (NOON, False), (NOON + MOMENT, True)], ids=str
)
def test_is_ahead_is_true_before_the_end(session: Session, end: datetime | None, *, expected: bool) -> None:
    column: Any = literal(end, DateTime(timezone=True))
    assert is_ahead(end, NOON) is expected
    assert in_sql(session, is_ahead(column, NOON)) is expected


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("granted", False), ("denied", True)])
def test_is_value_is_never_unknown(session: Session, value: str | None, *, expected: bool) -> None:
    column = literal(value, String)
    assert is_value(value, "denied") is expected
    assert in_sql(session, is_value(column, "denied")) is expected
    assert in_sql(session, not_(is_value(column, "denied"))) is not expected
    assert is_null(value) is in_sql(session, is_null(column)) is (value is None)


@pytest.mark.parametrize("first", BOOLEANS)
@pytest.mark.parametrize("second", BOOLEANS)
def test_conditions_combine_in_memory_as_in_sql(session: Session, *, first: bool, second: bool) -> None:
    column = literal(first, Boolean)
    assert and_(first, second) is in_sql(session, and_(column, second)) is (first and second)
    assert or_(first, second) is in_sql(session, or_(column, second)) is (first or second)
    assert not_(first) is in_sql(session, not_(column)) is (not first)


def test_condition_as_text_names_the_present_instant() -> None:
    assert as_text(literal("it's") == TEXT_NOW) == "('it''s' = :now)"
