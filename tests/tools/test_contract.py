"""The contract's tools: a tidy contract's sources with one thing broken for each rule, and what follows from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.contract import parse_yaml
from tests.tools.contract_mistakes import BROKEN
from tools.contract import Problem, build, lint, write
from tools.contract.__main__ import main

TIDY = {path.name: path.read_bytes() for path in Path(__file__).with_name("tidy_contract").iterdir()}
DERIVED = {
    "a tag": "      tags: [Kettles]\n",
    "codes of a key and of a list": "      - invalid_cursor\n      - insufficient_scope\n",
    "codes of a person's write": "      - impersonation_read_only\n      - credential_type_not_allowed\n",
    "a code of a role": "      - insufficient_permission\n",
    "codes of a body and of a property": "      - validation_failed\n      - too_hot\n",
    "a code of a path parameter": "      x-errors: [not_found]\n",
    "a response of a code": "        '422': {$ref: '#/components/responses/InvalidBodyOrTooHot'}\n",
    "a response of a cross-cutting code": "        '401': {$ref: '#/components/responses/MissingCredentials'}\n",
    "the parameters of a list": (
        "      - {$ref: '#/components/parameters/Limit'}\n      - {$ref: '#/components/parameters/Cursor'}\n"
    ),
    "the idempotency key of a write": "      parameters: [{$ref: '#/components/parameters/IdempotencyKey'}]\n",
    "a path parameter": "    parameters: [{$ref: '#/components/parameters/KettleId'}]\n",
    "the header of a creation": "            Location: {$ref: '#/components/headers/Location'}\n",
    "the header of a write": "            Idempotency-Replayed: {$ref: '#/components/headers/Idempotency-Replayed'}\n",
    "a header of a credential": "            RateLimit-Reset: {$ref: '#/components/headers/RateLimit-Reset'}\n",
    "a header of an error": "        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}\n",
    "an answer that can grow": "      required: [id]\n      additionalProperties: true\n      properties:\n",
    "the values of a property": "How it looks. One of `red` or `blue`.\n",
    "the values below a text": "        one can burn oneself at it.\n        One of `hot` or `cold`.\n",
    "an error response": (
        "    NotFoundWithoutCredential:\n      description: There is no such kettle.\n"
        "      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}\n"
        "      content:\n        application/json:\n          schema: {$ref: '#/components/schemas/ErrorResponse'}\n"
        "          examples: {not_found: {$ref: '#/components/examples/ErrorNotFound'}}\n"
    ),
    "the example of a code": (
        "    ErrorTooHot:\n      summary: too_hot\n      value:\n        error:\n          type: validation_failed\n"
        "          code: too_hot\n          message: Mind your fingers.\n"
        "          docsUrl: https://changefreeze.example/docs/errors#too_hot\n"
        "          requestId: req_06aq1m3k0v5t8c2n7d4e9f1g81\n"
    ),
}
"""Text of `openapi.yaml` that is derived."""


def replaced(old: str, new: str) -> dict[str, bytes]:
    """Return the sources of the tidy contract with one text replaced."""
    assert any(old in text.decode() for text in TIDY.values()), old
    return {name: text.decode().replace(old, new, 1).encode() for name, text in TIDY.items()}


def messages(problems: list[Problem]) -> list[str]:
    return [f"{problem.where}: {problem.message}" for problem in problems]


def written(root: Path, sources: Mapping[str, bytes]) -> Path:
    (root / "contract").mkdir(exist_ok=True)
    for name, text in sources.items():
        (root / "contract" / name).write_bytes(text)
    return root


class TestRules:
    def test_tidy_contract_has_no_problem(self) -> None:
        assert messages(build(TIDY).problems) == []

    @pytest.mark.parametrize("expected", BROKEN)
    def test_linter_finds_what_is_broken(self, expected: str) -> None:
        problems = messages(build(replaced(*BROKEN[expected])).problems)
        assert any(expected in problem for problem in problems), problems

    def test_problem_has_the_line_of_its_source(self) -> None:
        problem = build(replaced("      summary: Buy a kettle\n", "")).problems[0]
        line = TIDY["kettles.yaml"].decode().splitlines().index("    post:") + 1
        assert (problem.file, problem.line, problem.where) == ("contract/kettles.yaml", line, "create_kettle")


class TestCompletion:
    @pytest.mark.parametrize("derived", DERIVED.values(), ids=DERIVED)
    def test_what_follows_from_the_sources_is_added(self, derived: str) -> None:
        assert derived in build(TIDY).text.decode()
        assert not any(derived in text.decode() for text in TIDY.values())

    def test_own_headers_parameters_and_responses_are_kept(self) -> None:
        own = "        '400': {description: Our own.}\n        '200':\n          description: A page.\n"
        sources = replaced("        '200':\n          description: A page.\n", own)
        kettles = sources["kettles.yaml"].decode()
        kettles = kettles.replace("description: A page.\n", "description: A page.\n          headers: {ETag: {}}\n", 1)
        kettles = kettles.replace(
            "      requestBody:\n", "      parameters: [{name: steam, in: query}]\n      requestBody:\n"
        )
        found = build({**sources, "kettles.yaml": kettles.encode()}).document.root["paths"]["/kettles"]
        assert list(found["get"]["responses"]["200"]["headers"])[:2] == ["ETag", "X-Request-Id"]
        assert [one.get("name") for one in found["post"]["parameters"]] == [None, "steam"]
        assert found["get"]["responses"]["400"]["description"] == "Our own."

    def test_keys_have_the_same_order_whatever_that_of_the_sources(self) -> None:
        sources = replaced(
            "      summary: Get a kettle\n      description: One of them.\n",
            "      description: One of them.\n      summary: Get a kettle\n",
        )
        assert build(sources).text == build(TIDY).text

    def test_two_files_may_share_a_path(self) -> None:
        shared = TIDY["shared.yaml"].replace(b"boil.}]", b"boil.}, {name: Hot pots, description: So do these.}]")
        head, post = TIDY["kettles.yaml"].decode().split("    post:\n")
        post, rest = post.split("\n  /kettles/{", 1)
        pots = f"paths:\n  /kettles:\n    post:\n{post}"
        sources = {
            "shared.yaml": shared,
            "kettles.yaml": f"{head}\n  /kettles/{{{rest}".encode(),
            "hot_pots.yaml": pots.encode(),
        }
        built = build(sources)
        item = built.document.root["paths"]["/kettles"]
        assert [item[method]["tags"] for method in ("get", "post")] == [["Kettles"], ["Hot pots"]]
        assert "move it to shared.yaml" in built.problems[0].message


class TestWriting:
    def test_what_is_written_is_read_as_it_was(self) -> None:
        long = "word " * 60
        document: dict[str, Any] = {
            "texts": ["on", "2026-11-21", "1.5", "", " a", "null", "#", "a: b", long, f"{long}: '\"", "x" * 300],
            "blocks": {
                "a": "one\n\n  two\n",
                "b": "\n",
                "c": "no end\nhere",
                "d": "tab\there\n",
                "e": f"{long}\n{long}",
            },
            "values": [1, 1.5, True, None, [], {}, {"deep": [{"deeper": [long, {"é": "→"}]}]}],
        }
        text = write(document, "One.\nTwo.\n")
        assert parse_yaml(text) == yaml.safe_load(text) == document
        assert text.startswith(b"# One.\n# Two.\n\ntexts:\n")


class TestCommand:
    def test_complete_writes_the_contract_which_lint_then_accepts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = str(written(tmp_path, TIDY))
        outdated = "openapi.yaml:1: document: is not what contract/ gives: run make contract\n"
        assert (main(["lint", root]), capsys.readouterr().out) == (1, outdated)
        assert (main(["complete", root]), main(["lint", root])) == (0, 0)
        assert not capsys.readouterr().out
        (tmp_path / "openapi.yaml").write_bytes((tmp_path / "openapi.yaml").read_bytes() + b"# By hand.\n")
        assert (main(["lint", root]), capsys.readouterr().out) == (1, outdated)

    def test_complete_prints_what_is_left(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        root = written(tmp_path, replaced("      description: All of them.\n", ""))
        assert main(["complete", str(root)]) == 1
        assert capsys.readouterr().out == "contract/kettles.yaml:4: list_kettles: has no description\n"
        assert [problem.file for problem in lint(root)] == ["contract/kettles.yaml"]

    @pytest.mark.parametrize("message", ["not YAML", "x-effect given twice", "KettleLost does not exist"])
    def test_complete_writes_nothing_when_sources_cannot_be_read(
        self, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = written(tmp_path, replaced(*next(BROKEN[each] for each in BROKEN if message in each)))
        assert main(["complete", str(root)]) == 1
        assert message in capsys.readouterr().out
        assert not (root / "openapi.yaml").exists()
