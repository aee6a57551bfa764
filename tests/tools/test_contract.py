"""The contract's tools: a tidy contract with one thing broken for each rule, and with each derived part missing."""

import re
from pathlib import Path

import pytest

from schemas.contract import CONTRACT_PATH, parse_yaml
from tools.contract import Document, Problem, complete, derivation, lint
from tools.contract.__main__ import main

TIDY = Path(__file__).with_name("tidy_contract.yaml")
FIRST_CODE = "        - invalid_cursor\n"
ONE_HEADER = """\
          headers:
            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}
          content:
"""
UNAUTHORIZED = '        "401": {$ref: "#/components/responses/Unauthorized"}\n'

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
    "a write without x-audit": (
        "      x-audit: [freeze.started]\n",
        "",
        "create_kettle: writes and has no x-audit",
    ),
    "a read with x-audit": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-audit: []\n      x-least",
        "list_kettles: only reads and has an x-audit",
    ),
    "an unknown audit action": (
        "x-audit: [freeze.started]",
        "x-audit: [kettle.boiled]",
        "create_kettle: its x-audit kettle.boiled is not in the vocabulary",
    ),
    "invalid YAML": ("info: {title", "info: {title: {", "document: is not YAML"),
    "a broken reference": (
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
    "a body limit that is no number": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-body-limit: 2MB\n",
        "create_kettle: x-body-limit must be a number of bytes",
    ),
    "a malformed tool name": (
        "svc_list_kettles",
        "listKettles",
        "list_kettles: x-mcp-tool must look like svc_list_freezes",
    ),
    "a tool given twice": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_list_kettles\n",
        "create_kettle: the tool svc_list_kettles is given twice",
    ),
    "a tool that keys cannot call": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_buy_kettle\n",
        "create_kettle: is a tool, which keys and people must be able to call",
    ),
    "a tool whose success is not JSON": (
        "          content:\n            application/json:\n",
        "          content:\n            text/csv: {schema: {type: string}}\n            application/json:\n",
        "list_kettles: is a tool, and its success is not JSON",
    ),
    "a confirmation without a tool": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-confirm: true\n",
        "create_kettle: x-mcp-confirm is true or false, and for tools that write",
    ),
    "a confirmation of a read": (
        "      x-mcp-tool: svc_list_kettles\n",
        "      x-mcp-tool: svc_list_kettles\n      x-mcp-confirm: false\n",
        "list_kettles: x-mcp-confirm is true or false, and for tools that write",
    ),
    "a session without a least role": (
        "      x-least-role: viewer\n",
        "",
        "list_kettles: accepts sessions and has no x-least-role",
    ),
    "a least role without sessions": (
        "      security: []\n",
        "      security: []\n      x-least-role: viewer\n",
        "get_kettle: accepts no sessions and has an x-least-role",
    ),
    "a list without nextCursor": (
        "operationId: get_kettle\n",
        "operationId: list_kettle\n",
        "list_kettle: is called a list and returns no nextCursor",
    ),
    "a path parameter that is not declared": (
        "/kettles/{kettleId}",
        "/kettles/{potId}",
        "get_kettle: path parameter potId is not both in the path and declared",
    ),
    "a 201 without a link": ("self: {operationId", "it: {operationId", "create_kettle: its 201 has no link self"),
    "no success": ('        "201":', '        "301":', "create_kettle: needs exactly one 2xx response"),
    "a link to an unknown operation": (
        "get: {operationId: get_kettle",
        "get: {operationId: get_pot",
        "list_kettles: its link get names no operation",
    ),
    "a link with an unknown parameter": (
        'parameters: {kettleId: "$response.body#/data/0/id"}',
        'parameters: {potId: "$response.body#/data/0/id"}',
        "list_kettles: its link get fills potId, which get_kettle does not take",
    ),
    "a code outside the catalogue": (
        FIRST_CODE,
        "        - too_cold\n" + FIRST_CODE,
        "list_kettles: its code too_cold is not in the catalogue",
    ),
    "a reserved code": (
        FIRST_CODE,
        "        - never_said\n" + FIRST_CODE,
        "list_kettles: its code never_said is reserved and never returned",
    ),
    "a status without a code": (
        UNAUTHORIZED,
        UNAUTHORIZED + UNAUTHORIZED.replace("401", "418"),
        "list_kettles: documents 418, which none of its codes has",
    ),
    "a code whose status has no shared response": (
        "too_hot: {status: 422",
        "too_hot: {status: 418",
        "create_kettle: can return too_hot and has no 418 response",
    ),
    "a parameter's code outside the catalogue": (
        "x-not-found: not_found",
        "x-not-found: kettle_not_found",
        "components.parameters.KettleId: kettle_not_found is not in the catalogue",
    ),
    "a property's code outside the catalogue": (
        "x-error-code: too_hot",
        "x-error-code: too_cold",
        "components.schemas.CreateKettleRequest: too_cold is not in the catalogue",
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
        "components.schemas.CreateKettleRequest: the key x-effect is unknown here",
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
    "a component without a description": (
        "      description: It boils.\n",
        "",
        "components.schemas.Kettle: has no description",
    ),
    "an unbounded integer": (
        "heat: {type: integer, minimum: 0, maximum: 100",
        "heat: {type: integer, minimum: 0",
        "components.schemas.CreateKettleRequest: heat needs maximum",
    ),
    "an unbounded string": (
        "items: {type: string, maxLength: 10}",
        "items: {type: string}",
        "components.schemas.CreateKettleRequest: an item of names needs maxLength or enum or pattern",
    ),
    "an unbounded array": (
        "type: array, maxItems: 3",
        "type: array",
        "components.schemas.CreateKettleRequest: names needs maxItems",
    ),
    "an unbounded parameter": (
        "schema: {type: string, maxLength: 64}",
        "schema: {type: string}",
        "paths./kettles/{kettleId}.parameters: kettleId needs maxLength or enum or pattern",
    ),
    "an open request": (
        "      additionalProperties: false\n",
        "",
        "components.schemas.CreateKettleRequest: the body is sent by clients and needs additionalProperties: false",
    ),
    "an unbounded map": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, additionalProperties: {type: string, maxLength: 10}",
        "components.schemas.CreateKettleRequest: names needs maxProperties",
    ),
    "an unbounded value of a map": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, maxProperties: 3, additionalProperties: {type: string}",
        "components.schemas.CreateKettleRequest: a value of names needs maxLength or enum or pattern",
    ),
    "a closed answer": (
        "      additionalProperties: true\n",
        "      additionalProperties: false\n",
        "components.schemas.Kettle: is in an answer and is closed",
    ),
    "an enum in an answer": (
        "x-extensible-enum: [red, blue]",
        "enum: [red, blue]",
        "components.schemas.Kettle: is in an answer and has enum",
    ),
    "values in the pattern of an answer": (
        "x-extensible-enum: [red, blue]",
        "pattern: ^(red|blue)$",
        "components.schemas.Kettle: lists its values in a pattern",
    ),
    "a discriminator in an answer": (
        "      description: It boils.\n",
        "      description: It boils.\n      discriminator: {propertyName: id}\n",
        "components.schemas.Kettle: is in an answer and has a discriminator",
    ),
    "a value listed twice": (
        "x-extensible-enum: [red, blue]",
        "x-extensible-enum: [red, red]",
        "components.schemas.Kettle: needs type: string, and in x-extensible-enum a list of strings, each once",
    ),
    "values without a description": (
        ', description: "How it looks. One of `red` or `blue`."',
        "",
        "components.schemas.Kettle: has x-extensible-enum and no description",
    ),
    "open values in a request": (
        "enum: [hot, cold], description: How it shall",
        "x-extensible-enum: [hot, cold], description: How it shall",
        "components.schemas.CreateKettleRequest: is in a request and has x-extensible-enum",
    ),
    "an enum of its own in a request": (
        "{type: string, enum: [hot, cold], description: How it shall be.}\n",
        '{$ref: "#/components/schemas/Heat"}\n    Heat: {type: string, enum: [hot, cold], description: Not used.}\n',
        "components.schemas.Heat: is an enum of its own",
    ),
    "a filter with other values than the property": (
        "enum: [red, blue]}}",
        "enum: [red, green]}}",
        "list_kettles: colour does not accept the values of x-extensible-enum",
    ),
    "a form of unknown properties": (
        "      description: A kettle to buy.\n",
        "      description: A kettle to buy.\n      x-forms: [[heat], [cold]]\n",
        "components.schemas.CreateKettleRequest: has x-forms that do not name optional properties",
    ),
    "a schema with the name of a built-in": (
        "    CreateKettleRequest:\n",
        "    Error: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.Error: is a name that languages have already",
    ),
    "a schema with the name of an operation": (
        "    CreateKettleRequest:\n",
        "    ListKettles: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.ListKettles: has the name of list_kettles",
    ),
    "a schema with the name of an operation's parameters": (
        "    CreateKettleRequest:\n",
        "    GetKettleRequest: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.GetKettleRequest: has the name of the parameters of get_kettle",
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
    "an error response without an example": (
        ", example: {error: {code: too_hot}}",
        "",
        "components.responses.BadRequest: has no example",
    ),
    "a path parameter without an example": (
        "      example: one\n",
        "",
        "paths./kettles/{kettleId}.parameters: parameter kettleId has no example",
    ),
    "an invalid example": (
        "example: {id: one, boughtAt: null}",
        "example: {id: one, boughtAt: soon}",
        "create_kettle: the example's boughtAt is not valid",
    ),
    "an invalid shared example": (
        "Kettle: {value: {id: one,",
        "Kettle: {value: {id: 1,",
        "get_kettle: the example's id is not valid",
    ),
    "an invalid example of a property": (
        "id: {type: string, example: one}",
        "id: {type: string, example: 1}",
        "components.schemas.Kettle: the example's value is not valid",
    ),
}


COMPLETED = {
    "a code of a key": "        - insufficient_scope\n",
    "a code of a person's write": "        - impersonation_read_only\n",
    "a code of a role": "        - insufficient_permission\n",
    "a code of a body": "        - validation_failed\n",
    "a code of a property": "        - too_hot\n",
    "a code of a path parameter": "      x-errors:\n        - not_found\n",
    "a response of a code": '        "422": {$ref: "#/components/responses/ValidationFailed"}\n',
    "a response of a cross-cutting code": UNAUTHORIZED,
    "the parameters of a list": (
        '        - $ref: "#/components/parameters/Limit"\n        - $ref: "#/components/parameters/Cursor"\n'
    ),
    "the idempotency key of a write": '      parameters:\n        - $ref: "#/components/parameters/IdempotencyKey"\n',
    "a path parameter": '    parameters:\n      - $ref: "#/components/parameters/KettleId"\n',
    "the header of a creation": '            Location: {$ref: "#/components/headers/Location"}\n',
    "the header of a write": '            Idempotency-Replayed: {$ref: "#/components/headers/Idempotency-Replayed"}\n',
    "an answer that can grow": "      additionalProperties: true\n",
    "an answer on one line that can grow": ", additionalProperties: true",
    "the values of a property": " One of `red` or `blue`.",
    "the values below a text": "        One of `hot` or `cold`.\n",
    "a header of a credential": '            RateLimit-Reset: {$ref: "#/components/headers/RateLimit-Reset"}\n',
}
"""Text of the tidy contract that is derived: without it, it is written."""
SURPLUS = {
    "a code that the security rules out": (
        "        - not_found\n",
        "        - insufficient_scope\n        - not_found\n",
    ),
    "a code listed twice": ("        - too_hot\n", "        - too_hot\n        - too_hot\n"),
    "codes in another order": (
        "        - idempotency_key_reuse\n        - organization_deleted\n",
        "        - organization_deleted\n        - idempotency_key_reuse\n",
    ),
    "codes on one line": ("      x-errors:\n        - not_found\n", "      x-errors: [not_found]\n"),
    "no value": ("      x-errors:\n        - not_found\n", "      x-errors:\n"),
    "a response without a code": (
        UNAUTHORIZED,
        UNAUTHORIZED + '        "404": {$ref: "#/components/responses/NotFound"}\n',
    ),
    "a header of another kind of operation": (
        ONE_HEADER,
        ONE_HEADER.replace(
            "          content", '            RateLimit-Reset: {$ref: "#/components/headers/ETag"}\n          content'
        ),
    ),
    "no headers": (
        '          headers:\n            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}\n          content:',
        "          content:",
    ),
    "headers on one line": (
        '          headers:\n            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}\n          content:',
        '          headers: {X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}}\n          content:',
    ),
    "values that the list does not have": ("One of `red` or `blue`.", "One of `red`, `blue` or `green`."),
    "no blank line between paths": ("\n\n  /kettles/{", "\n  /kettles/{"),
    "an idempotency key of a read": (
        '        - $ref: "#/components/parameters/Limit"\n',
        '        - $ref: "#/components/parameters/IdempotencyKey"\n        - $ref: "#/components/parameters/Limit"\n',
    ),
    "keys in another order": (
        "      summary: Get a kettle\n      description: One of them.\n",
        "      description: One of them.\n      summary: Get a kettle\n",
    ),
    "trailing white space": ("description: One of them.\n", "description: One of them.  \n"),
}
"""Text of the tidy contract, and what becomes of it again."""


def messages(problems: list[Problem]) -> list[str]:
    return [f"{problem.where}: {problem.message}" for problem in problems]


def completed(text: str) -> str:
    return complete(Document.parse(text.encode())).decode()


class TestLint:
    def test_tidy_contract_has_no_problem(self) -> None:
        assert messages(lint(TIDY.read_bytes())) == []

    @pytest.mark.parametrize(("tidy", "broken", "expected"), BROKEN.values(), ids=BROKEN)
    def test_linter_finds(self, tidy: str, broken: str, expected: str) -> None:
        text = TIDY.read_text()
        assert tidy in text
        problems = messages(lint(text.replace(tidy, broken, 1).encode()))
        assert any(problem.startswith(expected) for problem in problems), problems

    @pytest.mark.parametrize("derived", COMPLETED.values(), ids=COMPLETED)
    def test_linter_finds_a_missing_derived_part(self, derived: str) -> None:
        problems = messages(lint(TIDY.read_text().replace(derived, "", 1).encode()))
        assert any("run make contract, which writes here:" in problem for problem in problems), problems


class TestComplete:
    def test_complete_contract_stays_unchanged(self) -> None:
        assert completed(TIDY.read_text()) == TIDY.read_text()

    @pytest.mark.parametrize("derived", COMPLETED.values(), ids=COMPLETED)
    def test_missing_derived_part_is_written(self, derived: str) -> None:
        text = TIDY.read_text()
        assert derived in text
        assert completed(text.replace(derived, "", 1)) == text

    @pytest.mark.parametrize(("tidy", "surplus"), SURPLUS.values(), ids=SURPLUS)
    def test_text_is_put_into_its_canonical_form(self, tidy: str, surplus: str) -> None:
        text = TIDY.read_text()
        assert tidy in text
        assert completed(text.replace(tidy, surplus, 1)) == text

    def test_operation_on_one_line_is_written_as_a_block(self) -> None:
        line = '    delete: {responses: {"204": {description: Gone.}}, security: [], operationId: drop_kettle}\n'
        text = completed(TIDY.read_text().replace("components:\n", line + "components:\n", 1))
        assert (
            """\
    delete:
      operationId: drop_kettle
      security: []
      x-errors:
        - not_found
      responses:
        "204":
          description: Gone.
          headers:
            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}
        "400": {$ref: "#/components/responses/BadRequest"}
        "404": {$ref: "#/components/responses/NotFound"}
"""
            in text
        )

    def test_comments_stay_beside_what_they_explain(self) -> None:
        text = TIDY.read_text()
        for line in ("      x-effect: write\n", "        - too_hot\n", '        "422": {$ref', "    post:\n"):
            assert line in text
            text = text.replace(line, f"{line[: -len(line.lstrip())]}# Why this?\n{line}", 1)
        assert completed(text) == text
        assert completed(text.replace("        - organization_not_provisioned\n", "")) == text

    def test_own_headers_parameters_and_responses_are_kept(self) -> None:
        header = '            ETag: {$ref: "#/components/headers/ETag"}\n'
        parameter = "        - {name: steam, in: query, schema: {type: boolean}}\n"
        response = '        "400": {description: Our own.}\n'
        text = TIDY.read_text()
        text = text.replace("            X-Request-Id:", header + "            X-Request-Id:", 1)
        text = text.replace("      requestBody:\n", parameter + "      requestBody:\n", 1)
        text = text.replace('        "400": {$ref: "#/components/responses/BadRequest"}\n', response, 1)
        found = parse_yaml(completed(text).encode())["paths"]["/kettles"]
        assert list(found["get"]["responses"]["200"]["headers"])[:2] == ["ETag", "X-Request-Id"]
        assert [one.get("name") for one in found["post"]["parameters"]] == [None, "steam"]
        assert found["get"]["responses"]["400"]["description"] == "Our own."

    def test_product_contract_is_restored_without_its_derived_lines(self) -> None:
        source = CONTRACT_PATH.read_text()
        bare = without_derived_lines(source)
        assert source.count("\n") - bare.count("\n") > 1900
        assert completed(bare) == source


def without_derived_lines(source: str) -> str:
    """Return a contract without the lines that follow from the rest in every operation."""
    paths, rest = source.split("\ncomponents:\n")
    codes = sorted(set(derivation.CODES) - set(derivation.ALSO_WRITTEN))
    derived = [
        rf'        "\d+": {{\$ref: "#/components/responses/({"|".join(derivation.SHARED_RESPONSES.values())})"}}',
        r"            (X-Request-Id|RateLimit-Remaining|RateLimit-Reset|Idempotency-Replayed|Location): {.*}",
        r'        - \$ref: "#/components/parameters/(IdempotencyKey|Limit|Cursor)"',
        r'      - \$ref: "#/components/parameters/\w+Id"',
        rf"        - ({'|'.join(codes)})",
    ]
    bare = re.sub(rf"^({'|'.join(derived)})\n", "", paths + "\n", flags=re.MULTILINE)
    empty = re.compile(r"^( +)(?:headers|parameters|x-errors):\n(?!\1 )", re.MULTILINE)
    return f"{empty.sub('', bare)}components:\n{rest}"


class TestCommand:
    def test_lint_prints_file_line_operation_and_problem(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "openapi.yaml"
        path.write_text(TIDY.read_text().replace("      summary: List kettles\n", ""))
        assert main(["lint", str(path)]) == 1
        assert capsys.readouterr().out == "openapi.yaml:7: list_kettles: has no summary\n"

    def test_lint_prints_nothing_about_a_tidy_contract(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", str(TIDY)]) == 0
        assert not capsys.readouterr().out

    def test_complete_writes_the_file_and_prints_what_is_left(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "openapi.yaml"
        path.write_text(TIDY.read_text().replace("      description: All of them.\n", "").replace(UNAUTHORIZED, ""))
        assert main(["complete", str(path)]) == 1
        assert capsys.readouterr().out == "openapi.yaml:7: list_kettles: has no description\n"
        assert path.read_text() == TIDY.read_text().replace("      description: All of them.\n", "")

    @pytest.mark.parametrize(
        ("tidy", "broken", "expected"),
        [BROKEN["invalid YAML"], BROKEN["a broken reference"], BROKEN["a key given twice"]],
        ids=["YAML", "reference", "key"],
    )
    def test_complete_leaves_a_file_that_cannot_be_read(
        self, tidy: str, broken: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "openapi.yaml"
        path.write_text(text := TIDY.read_text().replace(tidy, broken, 1))
        assert main(["complete", str(path)]) == 1
        assert expected in capsys.readouterr().out
        assert path.read_text() == text

    def test_complete_rejects_a_comment_in_a_collection_to_unfold(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "openapi.yaml"
        headers = (
            '          headers: {ETag: { # why\n            $ref: "#/components/headers/ETag"}}\n          content'
        )
        path.write_text(TIDY.read_text().replace("          content", headers, 1).replace("headers:\n", "x-h:\n", 1))
        assert main(["complete", str(path)]) == 1
        assert "write the entry as a block, or without the comment" in capsys.readouterr().out
