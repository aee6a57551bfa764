"""Dumping a handler's objects by the contract's components."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import marshmallow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import fields

from rules.time.instants import format_instant
from schemas.build import Builder
from schemas.instants import parse_instant, read_instant

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


def test_objects_and_dictionaries_are_dumped_alike() -> None:
    dump = Builder(DOCUMENT).dumper(FREEZE)
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
    assert dump(Freeze("frz_1", NOON, None, Targets(3), scope, [Targets(1)])) == expected
    as_dictionary = {
        "id": "frz_1",
        "started_at": NOON,
        "ends_at": None,
        "scope": scope,
        "targets": {"totalCount": 3},
        "heads": [{"total_count": 1}],
        "parent": None,
    }
    assert dump(as_dictionary) == expected


def test_nested_recursive_and_plain_values_are_dumped() -> None:
    dump = Builder(DOCUMENT).dumper(FREEZE)
    child = {"id": "a", "started_at": NOON, "ends_at": NOON, "targets": Targets(1), "day": date(2026, 1, 2)}
    dumped = dump({**child, "parent": child, "instants": [NOON], "details": {"any_key": 1}})
    assert dumped["parent"]["endsAt"] == "2026-11-21T12:00:00Z"
    assert dumped["parent"]["day"] == "2026-01-02"
    assert dumped["instants"] == ["2026-11-21T12:00:00Z"]
    assert dumped["details"] == {"any_key": 1}


def test_an_absent_optional_property_is_left_out_and_a_required_one_is_an_error() -> None:
    dump = Builder(DOCUMENT).dumper(FREEZE)
    with pytest.raises(AttributeError, match="started_at for startedAt"):
        dump({"id": "frz_1", "ends_at": None, "targets": None})


def test_a_schema_by_hand_computes_a_value() -> None:
    class TargetsByHand(marshmallow.Schema):
        total_count = fields.Raw(data_key="totalCount")
        twice = fields.Method("compute_twice")

        def compute_twice(self, targets: Targets) -> int:
            return 2 * targets.total_count

    dump = Builder(DOCUMENT, {"Targets": TargetsByHand}).dumper({"$ref": "#/components/schemas/Targets"})
    assert dump(Targets(4)) == {"totalCount": 4, "twice": 8}


def test_instants_are_utc_with_milliseconds_only_when_there_are_any() -> None:
    assert format_instant(NOON) == "2026-11-21T12:00:00Z"
    assert format_instant(NOON + timedelta(microseconds=999)) == "2026-11-21T12:00:00Z"
    assert format_instant(NOON + timedelta(milliseconds=7)) == "2026-11-21T12:00:00.007Z"
    assert format_instant(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-11-21T12:00:00Z"


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.timezones()))  # noqa: DTZ001 - Hypothesis adds the zone
def test_an_instant_survives_the_wire(instant: datetime) -> None:
    text = format_instant(instant)
    assert parse_instant(text) == read_instant(text)
    assert abs(parse_instant(text) - instant) < timedelta(milliseconds=1)
