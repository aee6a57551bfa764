"""The schemas of the arguments of tools."""

from typing import Any

import jsonschema_rs
import pytest

from mcp_server.input_schemas import input_schema
from mcp_server.tools import Tool, tools_of
from schemas.contract import Contract, ContractError, load_contract, parse_contract

TOOLS = tools_of(load_contract())
each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)

CONTRACT = b"""
openapi: 3.0.3
info: {title: Kettles, version: 1.0.0}
x-error-catalogue: {}
components:
  schemas:
    Colour: {type: string, enum: [red], nullable: true}
    Maker: {type: object, properties: {name: {type: string}, of: {$ref: "#/components/schemas/Maker"}}}
    Unused: {type: string}
    Place:
      oneOf:
        - {$ref: "#/components/schemas/Shelf"}
        - {$ref: "#/components/schemas/Stove"}
        - {$ref: "#/components/schemas/Hook"}
      discriminator: {propertyName: kind}
    Shelf:
      type: object
      description: On a shelf.
      required: [kind, level]
      properties:
        kind: {type: string, enum: [shelf]}
        level: {type: integer, description: Which level.}
        room: {type: string, description: Which room.}
    Stove:
      type: object
      description: On a stove.
      required: [kind]
      properties: {kind: {type: string, enum: [stove]}, room: {type: string, description: Which room.}}
    Hook:
      type: object
      description: On a hook.
      required: [kind]
      properties: {kind: {type: string, enum: [hook]}}
    Kettle:
      type: object
      required: [colour]
      additionalProperties: false
      x-extension: left out
      properties:
        colour: {$ref: "#/components/schemas/Colour"}
        until:
          type: string
          format: date-time
          pattern: "^[^ ]*$"
          description: |
            When it has
            to be full.

            Else it waits.
        place: {$ref: "#/components/schemas/Place"}
        nullable: {type: boolean, description: A property of this name.}
        litres: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false, example: 1}
        maker: {nullable: true, allOf: [{$ref: "#/components/schemas/Maker"}]}
        shape: {type: string, enum: [round], nullable: true, example: round}
paths:
  /kettles/{kettleId}:
    parameters:
      - {name: kettleId, in: path, required: true, description: Which one., schema: {type: string, example: one}}
    post:
      operationId: fill_kettle
      tags: [Kettles]
      security: [{ApiKey: [kettle]}, {Session: []}]
      summary: Fill
      description: With water.
      x-effect: write
      x-mcp-tool: svc_fill_kettle
      parameters:
        - {name: dry, in: query, schema: {type: boolean}}
        - {name: If-Match, in: header, schema: {type: string}}
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Kettle"}}}}
      responses: {"204": {description: Done.}}
"""


def schema_of(contract: Contract) -> dict[str, Any]:
    return input_schema(contract, contract.operations["fill_kettle"], confirms=True)


class TestInputSchema:
    def test_arguments_are_parameters_and_properties_of_the_body(self) -> None:
        schema = schema_of(parse_contract(CONTRACT))
        names = ["kettleId", "dry", "colour", "until", "place", "nullable", "litres", "maker", "shape"]
        names += ["confirm", "idempotencyKey"]
        assert list(schema["properties"]) == names
        assert schema["required"] == ["kettleId", "colour"]
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert schema["properties"]["kettleId"] == {"type": "string", "description": "Which one."}

    def test_keywords_of_openapi_become_those_of_json_schema(self) -> None:
        schema = schema_of(parse_contract(CONTRACT))
        assert schema["properties"]["litres"] == {"type": "number", "exclusiveMinimum": 0, "maximum": 9}
        assert schema["properties"]["shape"] == {"type": ["string", "null"], "enum": ["round", None]}
        maker = {"allOf": [{"$ref": "#/$defs/Maker"}]}
        assert schema["properties"]["maker"] == {"anyOf": [maker, {"type": "null"}]}
        assert schema["properties"]["nullable"]["type"] == "boolean"

    def test_definitions_are_those_that_are_used_more_than_once(self) -> None:
        schema = schema_of(parse_contract(CONTRACT))
        assert schema["properties"]["colour"] == {"type": ["string", "null"], "enum": ["red", None]}
        assert list(schema["$defs"]) == ["Maker"]
        assert schema["$defs"]["Maker"]["properties"]["of"] == {"$ref": "#/$defs/Maker"}

    def test_formats_are_those_of_json_schema(self) -> None:
        given = CONTRACT.replace(b"format: date-time", b"format: reason")
        assert schema_of(parse_contract(CONTRACT))["properties"]["until"]["format"] == "date-time"
        assert "format" not in schema_of(parse_contract(given))["properties"]["until"]

    def test_details_of_a_description_are_left_out(self) -> None:
        until = schema_of(parse_contract(CONTRACT))["properties"]["until"]
        assert until["description"] == "When it has to be full."
        assert "pattern" not in until

    def test_choice_of_objects_becomes_one_object(self) -> None:
        place = schema_of(parse_contract(CONTRACT))["properties"]["place"]
        assert (place["type"], place["required"], place["additionalProperties"]) == ("object", ["kind"], False)
        kind = place["properties"].pop("kind")
        assert kind["enum"] == ["shelf", "stove", "hook"]
        assert kind["description"] == "`shelf`: On a shelf. `stove`: On a stove. `hook`: On a hook."
        assert place["properties"] == {
            "level": {"type": "integer", "description": "With `shelf`: Which level."},
            "room": {"type": "string", "description": "Not with `hook`: Which room."},
        }

    def test_optional_body_requires_none_of_its_properties(self) -> None:
        contract = parse_contract(CONTRACT.replace(b"requestBody: {required: true", b"requestBody: {required: false"))
        assert schema_of(contract)["required"] == ["kettleId"]

    @pytest.mark.parametrize("name", ["dry", "confirm", "idempotencyKey"])
    def test_two_arguments_of_one_name_are_refused(self, name: str) -> None:
        contract = parse_contract(CONTRACT.replace(b"shape:", f"{name}:".encode()))
        with pytest.raises(ContractError, match=f"fill_kettle: its tool would have two arguments {name}"):
            schema_of(contract)


class TestContractTools:
    @each_tool
    def test_schema_of_a_tool_is_valid_and_closed(self, tool: Tool) -> None:
        jsonschema_rs.meta.validate(tool.input_schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})
        assert (tool.input_schema["type"], tool.input_schema["additionalProperties"]) == ("object", False)
        found = repr(tool.input_schema)
        assert "nullable" not in found
        assert "x-" not in found

    def test_tool_that_enables_repositories_takes_an_explicit_list(self) -> None:
        schema = TOOLS["svc_enable_repos"].input_schema
        assert schema["required"] == ["repositories"]
        assert set(schema["properties"]) == {"repositories", "idempotencyKey"}
        validator = jsonschema_rs.Draft202012Validator(schema)
        assert validator.is_valid({"repositories": ["acme/web"]})
        assert not validator.is_valid({"repositories": "all"})
        assert not validator.is_valid({"repositories": []})

    def test_reads_and_writes_are_never_in_one_tool(self) -> None:
        for tool in TOOLS.values():
            hints = tool.declaration["annotations"]
            assert hints.get("readOnlyHint", False) == (tool.operation.effect == "read")
            assert ("idempotencyKey" in tool.input_schema["properties"]) == (tool.operation.effect == "write")
            assert ("destructiveHint" in hints) == (tool.operation.effect == "write")
            assert hints["openWorldHint"] is False

    def test_tools_that_end_something_are_destructive_and_ask(self) -> None:
        asks = {name for name, tool in TOOLS.items() if "confirm" in tool.input_schema["properties"]}
        destructive = {name for name, tool in TOOLS.items() if tool.declaration["annotations"].get("destructiveHint")}
        assert asks == {
            "svc_end_freeze",
            "svc_end_freezes",
            "svc_override_freeze",
            "svc_delete_schedule",
            "svc_disable_repos",
            "svc_unwatch_branch",
        }
        assert destructive == asks | {"svc_revoke_exception"}
