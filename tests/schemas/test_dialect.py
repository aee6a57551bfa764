"""From OpenAPI 3.0 to JSON Schema: what validators accept."""

from typing import Any

import pytest

from schemas.dialect import Validators

DOCUMENT: dict[str, Any] = {
    "components": {
        "schemas": {
            "Node": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/components/schemas/Node"}},
            },
            "Cat": {
                "type": "object",
                "required": ["kind", "lives"],
                "properties": {"kind": {"type": "string", "enum": ["cat"]}, "lives": {"type": "integer"}},
            },
            "Dog": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"type": "string", "enum": ["dog", "wolf"]}},
            },
            "Pet": {
                "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
                "discriminator": {"propertyName": "kind"},
            },
        }
    }
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, ["a", None], [1]),
        ({"type": "string", "enum": ["a"], "nullable": True}, ["a", None], ["b"]),
        ({"nullable": True, "allOf": [{"$ref": "#/components/schemas/Node"}]}, [{"id": 1}, None], [{}, 1]),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, [9], [10]),
        (
            {"$ref": "#/components/schemas/Node"},
            [{"id": 1, "next": {"id": 2, "next": {"id": 3}}}],
            [{"id": 1, "next": {}}],
        ),
        (
            {"$ref": "#/components/schemas/Pet"},
            [{"kind": "wolf"}, {"kind": "cat", "lives": 9}],
            [{"kind": "cat"}, {"kind": "cow"}, {}, [], None],
        ),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}, "nullable": True},
            [[{"kind": "dog"}], None],
            [[{}]],
        ),
        (
            {"type": "object", "properties": {"nullable": {"type": "string"}, "example": {"type": "integer"}}},
            [{"nullable": "a"}],
            [{"nullable": 1}, {"example": "a"}],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
            [{"a": None}],
            [{"a": "b"}],
        ),
        ({"type": "string", "x-extensible-enum": ["a"]}, ["a"], ["b", 1, None]),
        ({"type": "string", "x-extensible-enum": ["a"], "nullable": True}, ["a", None], ["b"]),
        (
            {
                "type": "object",
                "required": ["kind"],
                "x-forms": [["id"], ["owner", "name"]],
                "properties": {"kind": {}, "id": {"type": "integer"}, "owner": {}, "name": {}},
                "additionalProperties": False,
            },
            [{"kind": 1, "id": 2}, {"kind": 1, "owner": 2, "name": 3}],
            [
                {"kind": 1},
                {"id": 1},
                {"kind": 1, "id": "a"},
                {"kind": 1, "owner": 2},
                {"kind": 1, "id": 2, "name": 3},
                {"kind": 1, "id": 2, "owner": 3, "name": 4},
                1,
            ],
        ),
        ({"type": "string", "format": "date-time"}, ["2026-11-21T09:30:00Z"], ["2026-11-21"]),
        ({"type": "string", "x-error-code": "reason_required", "example": 3}, ["a"], [3]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_converted_schema_accepts_values_of_openapi(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    validator = Validators(DOCUMENT).compile(schema)
    assert [value for value in good if not validator.is_valid(value)] == []
    assert [value for value in bad if validator.is_valid(value)] == []


def test_errors_of_a_variant_are_those_of_its_branch() -> None:
    validator = Validators(DOCUMENT).compile({"$ref": "#/components/schemas/Pet"})
    (error,) = validator.iter_errors({"kind": "cat", "lives": "nine"})
    assert error.instance_path == ["lives"]
