"""Handlers' objects are serialized by the contract's components."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.time.instants import format_instant
from schemas.instants import parse_instant, parse_valid_instant
from schemas.serialization import Serializers

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DOCUMENT: dict[str, Any] = {
    "components": {
        "schemas": {
            "Freeze": {
                "type": "object",
                "required": ["id", "startedAt", "endsAt", "targets"],
                "properties": {
                    "id": {"type": "string"},
                    "startedAt": {"type": "string", "format": "date-time"},
                    "endsAt": {"type": "string", "format": "date-time", "nullable": True},
                    "day": {"type": "string", "format": "date"},
                    "scope": {"oneOf": [{"type": "object"}], "discriminator": {"propertyName": "type"}},
                    "targets": {"$ref": "#/components/schemas/Targets"},
                    "heads": {"type": "array", "items": {"$ref": "#/components/schemas/Targets"}},
                    "instants": {"type": "array", "items": {"type": "string", "format": "date-time"}},
                    "parent": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Freeze"}]},
                    "details": {"type": "object"},
                },
            },
            "Targets": {
                "type": "object",
                "required": ["totalCount"],
                "properties": {"totalCount": {"type": "integer"}},
            },
        }
    }
}
FREEZE = {"$ref": "#/components/schemas/Freeze"}


@dataclass
class Targets:
    total_count: int


@dataclass
class Freeze:
    id: str
    started_at: datetime
    ends_at: datetime | None
    targets: Targets
    scope: dict[str, Any]
    heads: list[Targets]
    parent: Any = None


def test_objects_and_dictionaries_are_serialized_alike() -> None:
    serialize = Serializers(DOCUMENT).of(FREEZE)
    scope = {"type": "branch", "branchId": "wbr_1"}
    expected = {
        "id": "frz_1",
        "startedAt": "2026-11-21T12:00:00Z",
        "endsAt": None,
        "scope": scope,
        "targets": {"totalCount": 3},
        "heads": [{"totalCount": 1}],
        "parent": None,
    }
    assert serialize(Freeze("frz_1", NOON, None, Targets(3), scope, [Targets(1)])) == expected
    as_dictionary = {
        "id": "frz_1",
        "started_at": NOON,
        "ends_at": None,
        "scope": scope,
        "targets": {"totalCount": 3},
        "heads": [{"total_count": 1}],
        "parent": None,
    }
    assert serialize(as_dictionary) == expected


def test_nested_recursive_and_plain_values_are_serialized() -> None:
    serialize = Serializers(DOCUMENT).of(FREEZE)
    child = {"id": "a", "started_at": NOON, "ends_at": NOON, "targets": Targets(1), "day": date(2026, 1, 2)}
    serialized = serialize({**child, "parent": child, "instants": [NOON], "details": {"any_key": 1}})
    assert serialized["parent"]["endsAt"] == "2026-11-21T12:00:00Z"
    assert serialized["parent"]["day"] == "2026-01-02"
    assert serialized["instants"] == ["2026-11-21T12:00:00Z"]
    assert serialized["details"] == {"any_key": 1}


def test_absent_property_is_omitted_or_an_error_if_required() -> None:
    serialize = Serializers(DOCUMENT).of(FREEZE)
    with pytest.raises(AttributeError, match="started_at for startedAt"):
        serialize({"id": "frz_1", "ends_at": None, "targets": None})


def test_instants_are_utc_with_milliseconds_only_if_not_zero() -> None:
    assert format_instant(NOON) == "2026-11-21T12:00:00Z"
    assert format_instant(NOON + timedelta(microseconds=999)) == "2026-11-21T12:00:00Z"
    assert format_instant(NOON + timedelta(milliseconds=7)) == "2026-11-21T12:00:00.007Z"
    assert format_instant(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-11-21T12:00:00Z"


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.timezones()))  # noqa: DTZ001 - Hypothesis adds the zone
def test_instant_is_the_same_after_formatting_and_parsing(instant: datetime) -> None:
    text = format_instant(instant)
    assert parse_instant(text) == parse_valid_instant(text)
    assert abs(parse_instant(text) - instant) < timedelta(milliseconds=1)
