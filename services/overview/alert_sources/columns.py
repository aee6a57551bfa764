"""The columns and parameters of alerts that are derived from the present state."""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Interval,
    Select,
    String,
    Text,
    case,
    func,
    literal,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB

Query = Select[*tuple[Any, ...]]
ORGANIZATION: ColumnElement[str] = literal_column(":organization", String)
NOW: Any = literal_column("CAST(:now AS timestamptz)", DateTime(timezone=True))
_WEB: ColumnElement[str] = literal_column("CAST(:web AS text)", String)
PLAN: ColumnElement[str] = literal_column("CAST(:plan AS text)", String)
DECIDABLE: ColumnElement[bool] = literal_column("CAST(:decidable AS boolean)", Boolean)
TRIAL_ENDS_AT: Any = literal_column("CAST(:trial_ends_at AS timestamptz)", DateTime(timezone=True))


def counted(number: ColumnElement[int], noun: str, plural: str) -> ColumnElement[str]:
    """Return `1 branch`, `2 branches`: a number with its noun."""
    return func.concat(number, case((number == 1, f" {noun}"), else_=f" {plural}"))


def alert_columns(  # noqa: PLR0917 - the columns of an alert
    kind: str,
    severity: ColumnElement[str],
    since: ColumnElement[Any],
    subject: tuple[str, Any, Any],
    message: ColumnElement[str],
    action: tuple[str, Any],
    about: Any = None,
) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a derived alert; its id is a digest of `about`, or else of the id of the subject."""
    key = func.convert_to(literal(f"{kind} ") + (subject[1] if about is None else about), "UTF8")
    digest = func.left(func.encode(func.sha256(key), "hex"), 26)
    return (
        (literal("att_") + digest).label("id"),
        literal(kind, Text).label("type"),
        severity.label("severity"),
        since.label("since"),
        func.jsonb_build_object("type", subject[0], "id", subject[1], "name", subject[2], type_=JSONB).label("subject"),
        message.label("message"),
        func.jsonb_build_object("label", action[0], "url", action[1], type_=JSONB).label("action"),
    )


def page(address: str, about: Any = "") -> Any:
    """Return the URL of one of our pages, given its address; `about` is the id of the thing that it is about."""
    return _WEB + literal(address.removesuffix("{id}")) + about


def interval(value: str) -> ColumnElement[timedelta]:
    """Return a constant such as `interval '60 seconds'`."""
    return literal_column(value, Interval)


def format_instant(instant: Any) -> ColumnElement[str]:
    """Return an instant as messages show it, such as `2026-11-21 12:00 UTC`."""
    return func.to_char(func.timezone("UTC", instant), literal_column("""'YYYY-MM-DD HH24:MI "UTC"'"""))
