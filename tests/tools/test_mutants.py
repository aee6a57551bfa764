"""The list of mutants fits the tree, and the tool finds what a mutant is noticed by."""

import ast
from pathlib import Path

import pytest

from tools.mutants.__main__ import Mutant, applied, read_mutants, run_tests

ROOT = Path(__file__).resolve().parents[2]


def test_mutant_has_a_place_and_tests() -> None:
    for mutant in read_mutants():
        assert mutant.place(ROOT)
        ast.parse((ROOT / mutant.file).read_text().replace(mutant.old, mutant.new))
        for test in mutant.tests:
            file, *names = test.split("::")
            body = ast.parse((ROOT / file).read_text()).body
            for name in names:
                [found] = [
                    each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name
                ]
                body = found.body


def test_mutant_is_killed_by_a_test_that_notices_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second to import
    (tmp_path / "rule.py").write_text("def allows(age: int) -> bool:\n    return age < 18\n")
    (tmp_path / "test_far.py").write_text("from rule import allows\n\ndef test_far():\n    assert allows(1)\n")
    (tmp_path / "test_near.py").write_text("from rule import allows\n\ndef test_near():\n    assert not allows(18)\n")
    mutant = Mutant("bound", "rule.py", "<", "<=", ("test_far.py", "test_near.py"))
    assert mutant.place(tmp_path) == "rule.py:2"
    with applied(mutant, tmp_path):
        assert run_tests(mutant.tests[:1], tmp_path) == ("survived", "")
        assert run_tests(mutant.tests, tmp_path) == ("killed", "FAILED test_near.py::test_near")
    assert "age < 18" in (tmp_path / "rule.py").read_text()
