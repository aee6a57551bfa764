"""Each rule of the contract's linter, shown by a tidy contract with one thing broken."""

from pathlib import Path

import pytest

from tools.contract_lint import Fault, lint
from tools.contract_lint.__main__ import main

TIDY = Path(__file__).with_name("tidy_contract.yaml")
LIST_ERRORS = "insufficient_scope, organization_not_provisioned"
ANY = '{$ref: "#/components/headers/Any"}'
REFUSAL = '{$ref: "#/components/responses/Refusal"}'
POST_KEY = "        - {name: Idempotency-Key, in: header, schema: {type: string, maxLength: 100}}\n"
KETTLE_ID = "      - {name: kettleId, in: path, required: true, schema: {type: string, maxLength: 64}, example: one}"

BROKEN = {
    "a template that Connexion would render": (
        "All of them.",
        "All {{of}} them.",
        "document: {{ is taken for a template",
    ),
    "a key given twice": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-effect: read\n      x-least",
        "document: the key x-effect is given twice",
    ),
    "a bare date": (
        "title: Kettles",
        "title: 2026-11-21",
        "document: quote 2026-11-21, which YAML does not read as text",
    ),
    "a bare on": ("title: Kettles", "title: on", "document: quote on, which YAML does not read as text"),
    "a write that the audit may or may not know of": (
        "      x-audit: [freeze.started]\n",
        "",
        "create_kettle: writes and has no x-audit",
    ),
    "a read that the audit knows of": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-audit: []\n      x-least",
        "list_kettles: only reads and has an x-audit",
    ),
    "an action that there is not": (
        "x-audit: [freeze.started]",
        "x-audit: [kettle.boiled]",
        "create_kettle: its x-audit kettle.boiled is not in the vocabulary",
    ),
    "no YAML": ("info: {title", "info: {title: {", "document: is no YAML"),
    "a reference to nothing": (
        "schemas/KettleList",
        "schemas/KettleLost",
        "list_kettles: #/components/schemas/KettleLost does not exist",
    ),
    "no operationId": ("      operationId: list_kettles\n", "", "GET /kettles: has no operationId"),
    "an operationId in camel case": (
        "operationId: list_kettles",
        "operationId: listKettles",
        "listKettles: its operationId is not snake_case",
    ),
    "an operationId given twice": (
        "operationId: create_kettle",
        "operationId: list_kettles",
        "list_kettles: its operationId is given twice",
    ),
    "no tag": (
        "      tags: [Kettles]\n      summary: List",
        "      summary: List",
        "list_kettles: needs exactly one tag",
    ),
    "an undeclared tag": (
        "tags: [Kettles]\n      summary: List",
        "tags: [Pots]\n      summary: List",
        "list_kettles: its tag Pots is not declared",
    ),
    "no summary": ("      summary: List kettles\n", "", "list_kettles: has no summary"),
    "no description": ("      description: All of them.\n", "", "list_kettles: has no description"),
    "no security": ("      security: []\n", "", "get_kettle: has no security"),
    "an unknown security scheme": (
        "security: []",
        "security: [{Cookie: []}]",
        "get_kettle: its security scheme Cookie does not exist",
    ),
    "a scope outside the vocabulary": (
        '"kettle:read"]}, {S',
        '"kettle:boil"]}, {S',
        "list_kettles: its scope kettle:boil is not in the vocabulary",
    ),
    "a key without a scope": ('["kettle:read"]}, {S', "[]}, {S", "list_kettles: ApiKey names no scope"),
    "no effect": ("      security: []\n      x-effect: read\n", "      security: []\n", "get_kettle: has no x-effect"),
    "an unknown effect": (
        "      security: []\n      x-effect: read\n",
        "      security: []\n      x-effect: look\n",
        "get_kettle: x-effect must be one of read, write",
    ),
    "a body limit that is none": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-body-limit: 2MB\n",
        "create_kettle: x-body-limit must be a number of bytes",
    ),
    "a tool with a strange name": (
        "svc_list_kettles",
        "listKettles",
        "list_kettles: x-mcp-tool must look like svc_list_freezes",
    ),
    "a tool given twice": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_list_kettles\n",
        "create_kettle: the tool svc_list_kettles is given twice",
    ),
    "a session without a least role": (
        "      x-least-role: viewer\n",
        "",
        "list_kettles: takes sessions and has no x-least-role",
    ),
    "a least role without sessions": (
        "      security: []\n",
        "      security: []\n      x-least-role: viewer\n",
        "get_kettle: takes no sessions and has an x-least-role",
    ),
    "a write that cannot be repeated": (
        "      parameters:\n" + POST_KEY,
        "",
        "create_kettle: writes and takes no Idempotency-Key",
    ),
    "a read with an idempotency key": (
        "maxLength: 100}}\n      responses",
        "maxLength: 100}}\n" + POST_KEY + "      responses",
        "list_kettles: only reads and takes an Idempotency-Key",
    ),
    "a list without a limit": (
        "        - {name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 100}}\n",
        "",
        "list_kettles: is a list and takes no limit",
    ),
    "a list without a cursor": (
        "        - {name: cursor, in: query, schema: {type: string, maxLength: 100}}\n",
        "",
        "list_kettles: is a list and takes no cursor",
    ),
    "a list that is none": (
        "operationId: get_kettle\n",
        "operationId: list_kettle\n",
        "list_kettle: is called a list and answers no nextCursor",
    ),
    "a path parameter that is not declared": (
        "    parameters:\n" + KETTLE_ID + "\n",
        "",
        "get_kettle: path parameter kettleId is not both in the path and declared",
    ),
    "a creation without a link": ("self: {operationId", "it: {operationId", "create_kettle: its 201 has no link self"),
    "a creation without a location": (
        'Location: {$ref: "#/components/headers/Any"}, ',
        "",
        "create_kettle: its 201 has no Location header",
    ),
    "an answer without its request id": (
        f"          headers: {{X-Request-Id: {ANY}}}\n          content:",
        "          content:",
        "get_kettle: its 200 has no header X-Request-Id",
    ),
    "a credential's answer without the limit's state": (
        f"RateLimit-Remaining: {ANY}, ",
        "",
        "list_kettles: its 200 has no header RateLimit-Remaining",
    ),
    "no success": ('        "201":', '        "301":', "create_kettle: needs exactly one 2xx response"),
    "a link to no operation": (
        "get: {operationId: get_kettle",
        "get: {operationId: get_pot",
        "list_kettles: its link get names no operation",
    ),
    "a link that fills nothing": (
        'parameters: {kettleId: "$response.body#/data/0/id"}',
        'parameters: {potId: "$response.body#/data/0/id"}',
        "list_kettles: its link get fills potId, which get_kettle does not take",
    ),
    "a code outside the catalogue": (
        LIST_ERRORS,
        "too_cold, " + LIST_ERRORS,
        "list_kettles: its code too_cold is not in the catalogue",
    ),
    "a reserved code": (
        LIST_ERRORS,
        "never_said, " + LIST_ERRORS,
        "list_kettles: its code never_said is reserved and never answered",
    ),
    "a code listed twice": (
        LIST_ERRORS,
        "insufficient_scope, " + LIST_ERRORS,
        "list_kettles: its code insufficient_scope is listed twice",
    ),
    "a code whose status is not documented": (
        LIST_ERRORS,
        "too_hot, " + LIST_ERRORS,
        "list_kettles: can answer too_hot and has no 422 response",
    ),
    "a cross-cutting code whose status is not documented": (
        f'        "401": {REFUSAL}\n',
        "",
        "list_kettles: can answer missing_credentials and has no 401 response",
    ),
    "a status that no code gives": (
        f'        "401": {REFUSAL}\n',
        f'        "401": {REFUSAL}\n        "418": {REFUSAL}\n',
        "list_kettles: documents 418, which no code of it gives",
    ),
    "a policy without its code": (
        "[insufficient_scope, ",
        "[",
        "list_kettles: can answer insufficient_scope and does not list it in x-errors",
    ),
    "a code without its policy": (
        LIST_ERRORS,
        "insufficient_permission, " + LIST_ERRORS,
        "list_kettles: lists insufficient_permission, which its policies never answer",
    ),
    "a property's code that is not listed": (
        ", validation_failed, too_hot]",
        ", validation_failed]",
        "create_kettle: takes a property whose code is too_hot and does not list it in x-errors",
    ),
    "a property's code outside the catalogue": (
        "x-error-code: too_hot",
        "x-error-code: too_cold",
        "components.schemas.CreateKettle: too_cold is not in the catalogue",
    ),
    "a catalogue row without a meaning": (
        ", meaning: Who are you.",
        "",
        "x-error-catalogue.missing_credentials: has no meaning",
    ),
    "a catalogue row with an unknown key": (
        "meaning: Who are you.",
        "meaning: Who are you., hint: none",
        "x-error-catalogue.missing_credentials.hint: has the unknown key hint",
    ),
    "a code in camel case": ("  never_said:", "  neverSaid:", "x-error-catalogue.neverSaid: is not snake_case"),
    "a cross-cutting code outside the catalogue": (
        "[invalid_parameter, missing",
        "[invalid_pot, invalid_parameter, missing",
        "x-cross-cutting-errors.0: invalid_pot is not in the catalogue",
    ),
    "an unknown extension of an operation": (
        "      security: []\n",
        "      security: []\n      x-colour: red\n",
        "get_kettle: the key x-colour is unknown here",
    ),
    "an unknown extension of the document": (
        "servers: [{url: /}]",
        "servers: [{url: /}]\nx-colour: red",
        "x-colour: the key x-colour is unknown here",
    ),
    "an extension in the wrong place": (
        "maximum: 100, x-error-code",
        "maximum: 100, x-effect: read, x-error-code",
        "components.schemas.CreateKettle: the key x-effect is unknown here",
    ),
    "a key beside a reference": (
        'items: {$ref: "#/components/schemas/Kettle"}',
        'items: {$ref: "#/components/schemas/Kettle", description: One.}',
        "components.schemas.KettleList: has keys beside $ref, which are ignored",
    ),
    "null without a type": (
        "nextCursor: {type: string, nullable: true}",
        "nextCursor: {nullable: true}",
        "components.schemas.KettleList: is nullable and has no type, so null is refused",
    ),
    "a component that does not say what it is": (
        "      description: It boils.\n",
        "",
        "components.schemas.Kettle: has no description",
    ),
    "an unbounded integer": (
        "heat: {type: integer, minimum: 0, maximum: 100",
        "heat: {type: integer, minimum: 0",
        "components.schemas.CreateKettle: heat needs maximum",
    ),
    "an unbounded text": (
        "items: {type: string, maxLength: 10}",
        "items: {type: string}",
        "components.schemas.CreateKettle: an item of names needs maxLength or enum or pattern",
    ),
    "an unbounded array": (
        "type: array, maxItems: 3",
        "type: array",
        "components.schemas.CreateKettle: names needs maxItems",
    ),
    "an unbounded parameter": (
        "schema: {type: string, maxLength: 64}",
        "schema: {type: string}",
        "paths./kettles/{kettleId}.parameters: kettleId needs maxLength or enum or pattern",
    ),
    "an open request": (
        "      additionalProperties: false\n",
        "",
        "components.schemas.CreateKettle: the body is sent by clients and needs additionalProperties: false",
    ),
    "a body without an example": (
        "            example: {heat: 90, names: [whistler]}\n",
        "",
        "create_kettle: its application/json body has no example",
    ),
    "a success without an example": (
        "              example: {id: one, boughtAt: null}\n",
        "",
        "create_kettle: its 201 application/json has no example",
    ),
    "a refusal without an example": (
        ", example: {error: {code: too_hot}}",
        "",
        "components.responses.Refusal: has no example",
    ),
    "a path parameter without an example": (
        ", example: one}",
        "}",
        "paths./kettles/{kettleId}.parameters: parameter kettleId has no example",
    ),
    "an example that is not true": (
        "example: {id: one, boughtAt: null}",
        "example: {id: one, boughtAt: soon}",
        "create_kettle: the example's boughtAt is not valid",
    ),
    "a shared example that is not true": (
        "Kettle: {value: {id: one,",
        "Kettle: {value: {id: 1,",
        "get_kettle: the example's id is not valid",
    ),
    "a property's example that is not true": (
        "id: {type: string, example: one}",
        "id: {type: string, example: 1}",
        "components.schemas.Kettle: the example's value is not valid",
    ),
}


def told(faults: list[Fault]) -> list[str]:
    return [f"{fault.where}: {fault.message}" for fault in faults]


def test_a_tidy_contract_has_no_fault() -> None:
    assert told(lint(TIDY.read_bytes())) == []


@pytest.mark.parametrize(("tidy", "broken", "expected"), BROKEN.values(), ids=BROKEN)
def test_the_linter_finds(tidy: str, broken: str, expected: str) -> None:
    text = TIDY.read_text()
    assert tidy in text
    faults = told(lint(text.replace(tidy, broken, 1).encode()))
    assert any(fault.startswith(expected) for fault in faults), faults


def test_the_command_names_file_line_operation_and_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "openapi.yaml"
    path.write_text(TIDY.read_text().replace("      summary: List kettles\n", ""))
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == "openapi.yaml:7: list_kettles: has no summary\n"


def test_the_command_is_silent_about_a_tidy_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(TIDY)]) == 0
    assert not capsys.readouterr().out
