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
    Kettle:
      type: object
      required: [colour]
      additionalProperties: false
      x-extension: left out
      properties:
        colour: {$ref: "#/components/schemas/Colour"}
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
        names = ["kettleId", "dry", "colour", "nullable", "litres", "maker", "shape", "confirm", "idempotencyKey"]
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

    def test_definitions_are_those_that_are_needed(self) -> None:
        definitions = schema_of(parse_contract(CONTRACT))["$defs"]
        assert definitions["Colour"] == {"type": ["string", "null"], "enum": ["red", None]}
        assert list(definitions) == ["Colour", "Maker"]
        assert definitions["Maker"]["properties"]["of"] == {"$ref": "#/$defs/Maker"}

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
            assert hints["readOnlyHint"] == (tool.operation.effect == "read")
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
