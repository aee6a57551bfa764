"""The contract's tools: a tidy contract with one thing broken for each rule, and with each derived part missing."""

import re
from pathlib import Path

import pytest

from schemas.contract import CONTRACT_PATH, parse_yaml
from tests.tools.contract_mistakes import BROKEN, UNAUTHORIZED
from tools.contract import Document, Problem, complete, derivation, lint, refusals
from tools.contract.__main__ import main

TIDY = Path(__file__).with_name("tidy_contract.yaml")
ONE_HEADER = """\
          headers:
            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}
          content:
"""
TOO_HOT = """\
    ErrorTooHot:
      summary: too_hot
      value: {error: {type: validation_failed, code: too_hot, message: Mind your fingers., \
docsUrl: 'https://changefreeze.example/docs/errors#too_hot', requestId: req_06aq1m3k0v5t8c2n7d4e9f1g81}}
"""
NO_KETTLE = """\
    NotFoundWithoutCredential:
      description: There is no such kettle.
      headers:
        X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}
      content:
        application/json:
          schema: {$ref: "#/components/schemas/ErrorResponse"}
          examples:
            not_found: {$ref: "#/components/examples/ErrorNotFound"}
"""


COMPLETED = {
    "a code of a key": "        - insufficient_scope\n",
    "a code of a person's write": "        - impersonation_read_only\n",
    "a code of a role": "        - insufficient_permission\n",
    "a code of a body": "        - validation_failed\n",
    "a code of a property": "        - too_hot\n",
    "a code of a path parameter": "      x-errors:\n        - not_found\n",
    "a response of a code": '        "422": {$ref: "#/components/responses/InvalidBodyOrTooHot"}\n',
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
    "an error response": NO_KETTLE,
    "the example of a code": TOO_HOT,
    "the example of a code in a response": '            too_hot: {$ref: "#/components/examples/ErrorTooHot"}\n',
    "a header of an error": '        WWW-Authenticate: {$ref: "#/components/headers/WWW-Authenticate"}\n',
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
        UNAUTHORIZED + '        "404": {$ref: "#/components/responses/NotFoundWithoutCredential"}\n',
    ),
    "a response that does not exist any more": (
        "responses/MissingCredentials",
        "responses/Unauthorized",
    ),
    "an example that is not what the catalogue says": (
        "message: Mind your fingers., docsUrl",
        "message: Watch your fingers., docsUrl",
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

    @pytest.mark.parametrize("expected", BROKEN)
    def test_linter_finds_what_is_broken(self, expected: str) -> None:
        tidy, broken = BROKEN[expected]
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
        "400": {$ref: "#/components/responses/InvalidParameterWithoutCredential"}
        "404": {$ref: "#/components/responses/NotFoundWithoutCredential"}
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
        text = text.replace(
            '        "400": {$ref: "#/components/responses/InvalidParameterOrInvalidCursor"}\n', response, 1
        )
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
    shared = refusals.responses(Document.parse(source.encode()))
    derived = [
        rf'        "\d+": {{\$ref: "#/components/responses/({"|".join(shared)})"}}',
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
        "expected",
        ["document: is not YAML", "KettleLost does not exist", "document: the key x-effect is given twice"],
        ids=["YAML", "reference", "key"],
    )
    def test_complete_leaves_a_file_that_cannot_be_read(
        self, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "openapi.yaml"
        mistake = next(BROKEN[each] for each in BROKEN if expected in each)
        path.write_text(text := TIDY.read_text().replace(*mistake, 1))
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
