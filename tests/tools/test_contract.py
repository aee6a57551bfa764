"""The contract's tools: a tidy contract's sources with one thing broken for each rule, and what follows from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.contract import CONTRACT_PATH, parse_yaml
from tools.contract import Problem, build, lint, write
from tools.contract.__main__ import main

TIDY = {path.name: path.read_bytes() for path in Path(__file__).with_name("tidy_contract").iterdir()}
MISTAKES = yaml.safe_load(Path(__file__).with_name("contract_mistakes.yaml").read_bytes())


def replaced(old: str, new: str) -> dict[str, bytes]:
    """Return the sources of the tidy contract with one text replaced."""
    assert any(old in text.decode() for text in TIDY.values()), old
    return {name: text.decode().replace(old, new, 1).encode() for name, text in TIDY.items()}


def tidy() -> dict[str, Any]:
    """Return the tidy contract as data: `kettles` and `shared`."""
    return {name.removesuffix(".yaml"): parse_yaml(text) for name, text in TIDY.items()}


def sources(files: Mapping[str, Any]) -> dict[str, bytes]:
    return {f"{name}.yaml": write(content) for name, content in files.items()}


def mistaken(mistake: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the sources of the tidy contract with a mistake."""
    files = tidy()
    operations = {one["operationId"]: one for item in files["kettles"]["paths"].values() for one in item.values()}
    first, *keys, last = str(mistake.get("at") or mistake["drop"]).split()
    node = {**files, **files["kettles"]["components"]["schemas"], **operations}[first]
    for key in keys:
        node = node.setdefault(key, {})
    if "drop" in mistake:
        del node[last]
    else:
        node[last] = mistake["put"]
    return sources(files)


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

    @pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake["says"] for mistake in MISTAKES])
    def test_linter_finds_a_mistake(self, mistake: Mapping[str, Any]) -> None:
        problems = messages(build(mistaken(mistake)).problems)
        assert any(mistake["says"] in problem for problem in problems), problems

    def test_problem_has_the_line_of_its_source(self) -> None:
        problem = build(replaced("      summary: Buy a kettle\n", "")).problems[0]
        line = TIDY["kettles.yaml"].decode().splitlines().index("    post:") + 1
        assert (problem.file, problem.line, problem.where) == ("contract/kettles.yaml", line, "create_kettle")


class TestCompletion:
    def test_contract_is_what_follows_from_its_sources(self) -> None:
        assert lint(CONTRACT_PATH.parent) == []

    def test_own_headers_parameters_and_responses_are_kept(self) -> None:
        files = tidy()
        get, post = files["kettles"]["paths"]["/kettles"].values()
        get["responses"]["400"] = {"description": "Our own."}
        get["responses"]["200"]["headers"] = {"ETag": {}}
        post["parameters"] = [{"name": "steam", "in": "query"}]
        found = build(sources(files)).document.root["paths"]["/kettles"]
        assert list(found["get"]["responses"]["200"]["headers"])[:2] == ["ETag", "X-Request-Id"]
        assert [one.get("name") for one in found["post"]["parameters"]] == [None, "steam"]
        assert found["get"]["responses"]["400"]["description"] == "Our own."

    def test_keys_have_the_same_order_whatever_that_of_the_sources(self) -> None:
        files = tidy()
        paths = files["kettles"]["paths"]
        paths["/kettles"]["get"] = dict(reversed(paths["/kettles"]["get"].items()))
        assert build(sources(files)).text == build(TIDY).text

    def test_two_files_may_share_a_path(self) -> None:
        files = tidy()
        files["shared"]["tags"].append({"name": "Hot pots"})
        files["hot_pots"] = {"paths": {"/kettles": {"post": files["kettles"]["paths"]["/kettles"].pop("post")}}}
        built = build(sources(files))
        item = built.document.root["paths"]["/kettles"]
        assert [item[method]["tags"] for method in ("get", "post")] == [["Kettles"], ["Hot pots"]]
        assert "move it to shared.yaml" in built.problems[0].message


class TestWriting:
    def test_what_is_written_is_read_as_it_was(self) -> None:
        long = "word " * 60
        document: dict[str, Any] = {
            "texts": ["on", "2026-11-21", "1.5", "", " a", "null", "#", "a: b", long, f"{long}: '\"", "x" * 300],
            "blocks": {"a": "one\n\n  two\n", "b": "\n", "c": "no\nend", "d": "tab\there\n", "e": f"{long}\n{long}"},
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
        root = written(tmp_path, replaced("      x-least-role: viewer\n", ""))
        assert main(["complete", str(root)]) == 1
        expected = "contract/kettles.yaml:4: list_kettles: accepts sessions and has no x-least-role\n"
        assert capsys.readouterr().out == expected
        assert [problem.file for problem in lint(root)] == ["contract/kettles.yaml"]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("info: {title", "info: {title: {", "shared.yaml:1: document: not YAML"),
            ("    get:\n", "    get:\n      x-effect: read\n", "x-effect given twice, line 5"),
            ("schemas/KettleList", "schemas/KettleLost", "KettleLost does not exist"),
        ],
    )
    def test_complete_writes_nothing_when_sources_cannot_be_read(
        self, old: str, new: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = written(tmp_path, replaced(old, new))
        assert main(["complete", str(root)]) == 1
        assert message in capsys.readouterr().out
        assert not (root / "openapi.yaml").exists()
