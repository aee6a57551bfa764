"""The scaffold begins the code of an operation, and lies about nothing: what it writes fails until it is finished."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.contract import load_contract
from tools.scaffold import ROOT, ScaffoldError, main, scaffold

OPERATIONS = sorted(load_contract().operations)


def functions(path: Path) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]


def signature(path: Path, name: str) -> str:
    found = next(node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == name)
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    return f"{ast.unparse(found.args)} -> {ast.unparse(found.returns or ast.Constant(None))}"


def test_an_operation_gets_a_handler_and_a_test_class(tmp_path: Path) -> None:
    handlers, tests = scaffold("get_freeze", root=tmp_path)
    assert handlers == tmp_path / "handlers" / "freezes.py"
    assert tests == tmp_path / "tests" / "handlers" / "test_freezes.py"
    assert functions(handlers) == ["get_freeze"]
    assert functions(tests) == ["TestGetFreeze"]


def test_where_the_tests_of_a_tag_have_a_directory_an_operation_gets_a_file_there(tmp_path: Path) -> None:
    directory = tmp_path / "tests" / "handlers" / "freezes"
    directory.mkdir(parents=True)
    _, tests = scaffold("get_freeze", root=tmp_path)
    assert tests == directory / "test_get_freeze.py"
    assert functions(tests) == ["TestGetFreeze"]


@pytest.mark.parametrize(
    ("operation_id", "expected"),
    {
        "get_freeze": "unit: Unit, freeze_id: str -> object",
        "create_freeze": "unit: Unit, body: dict[str, Any] -> object",
        "unwatch_branch": "unit: Unit, branch_id: str -> None",
        "lookup_pull_request": "unit: Unit, ref: str, repo: str | None -> object",
        "list_freezes": "unit: Unit, limit: int, cursor: str | None, **filters: Any -> Page",
        "list_remote_branches": "unit: Unit, repo_id: str, limit: int, cursor: str | None -> Page",
        "get_health": "context: ReadContext -> object",
    }.items(),
)
def test_a_handler_takes_what_the_contract_gives(operation_id: str, expected: str, tmp_path: Path) -> None:
    handlers, _ = scaffold(operation_id, root=tmp_path)
    assert signature(handlers, operation_id) == expected


def test_a_handler_calls_the_service_function_of_its_own_name(tmp_path: Path) -> None:
    handlers, _ = scaffold("get_freeze", root=tmp_path)
    assert "from services import freezes\n" in handlers.read_text()
    assert "    return freezes.get_freeze(unit, freeze_id)\n" in handlers.read_text()


def test_the_test_class_asks_who_may_call_and_sends_the_contracts_example(tmp_path: Path) -> None:
    _, tests = scaffold("create_freeze", root=tmp_path)
    text = tests.read_text()
    assert 'scope="freeze:write"' in text
    assert 'least_role="member"' in text
    assert "writes=True" in text
    assert '"reason": "Database migration until Friday"' in text
    assert "answer.status_code == 201" in text


def test_a_slash_in_an_example_is_escaped_in_the_path(tmp_path: Path) -> None:
    _, tests = scaffold("get_repository", root=tmp_path)
    assert '"/v1/repos/acme%2Fweb"' in tests.read_text()


def test_what_is_there_stays_and_imports_are_merged(tmp_path: Path) -> None:
    handlers, tests = scaffold("get_freeze", root=tmp_path)
    scaffold("list_freezes", root=tmp_path)
    scaffold("create_freeze", root=tmp_path)
    assert functions(handlers) == ["get_freeze", "list_freezes", "create_freeze"]
    assert functions(tests) == ["TestGetFreeze", "TestListFreezes", "TestCreateFreeze"]
    assert handlers.read_text().count("from services import freezes") == 1


@pytest.mark.slow
def test_every_operation_can_be_scaffolded_into_tidy_files(tmp_path: Path) -> None:
    for operation_id in OPERATIONS:
        scaffold(operation_id, root=tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-m", "ruff", "check", "--ignore", "INP001", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_type_checker_refuses_the_handler_until_the_service_is_written(tmp_path: Path) -> None:
    scaffold("get_freeze", root=tmp_path)
    services = tmp_path / "services"
    services.mkdir()
    for name in ("__init__", "freezes"):
        (services / f"{name}.py").touch()
    (services / "unit.py").write_text("class Unit: ...\n")
    (tmp_path / "handlers" / "__init__.py").touch()
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = True\nmypy_path = {tmp_path}\ncache_dir = {tmp_path}/cache\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "-p", "handlers"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert b'Module has no attribute "get_freeze"' in checked.stdout


class TestRefusals:
    def test_an_operation_with_a_handler(self, tmp_path: Path) -> None:
        handlers, _ = scaffold("get_freeze", root=tmp_path)
        before = handlers.read_text()
        with pytest.raises(ScaffoldError, match=r"get_freeze has a handler already, in handlers/freezes\.py"):
            scaffold("get_freeze", root=tmp_path)
        assert handlers.read_text() == before

    def test_an_operation_with_a_test_class_only(self, tmp_path: Path) -> None:
        handlers, _ = scaffold("get_freeze", root=tmp_path)
        handlers.unlink()
        with pytest.raises(ScaffoldError, match=r"has a test class already, in tests/handlers/test_freezes\.py"):
            scaffold("get_freeze", root=tmp_path)
        assert not handlers.exists()

    def test_an_operation_whose_test_class_is_in_any_file_of_its_tag(self, tmp_path: Path) -> None:
        present = tmp_path / "tests" / "handlers" / "freezes" / "test_reading.py"
        present.parent.mkdir(parents=True)
        present.write_text("class TestGetFreeze: ...\n")
        with pytest.raises(
            ScaffoldError, match=r"has a test class already, in tests/handlers/freezes/test_reading\.py"
        ):
            scaffold("get_freeze", root=tmp_path)

    def test_an_unknown_operation_with_names_that_are_near(self, tmp_path: Path) -> None:
        with pytest.raises(
            ScaffoldError, match=r"the contract has no operation get_freezes; did you mean .*get_freeze"
        ):
            scaffold("get_freezes", root=tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_operation_unlike_any(self, tmp_path: Path) -> None:
        with pytest.raises(ScaffoldError, match=r"^the contract has no operation boil_kettle$"):
            scaffold("boil_kettle", root=tmp_path)

    def test_the_command_says_why_and_fails(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["get_freeze"]) == 1
        assert capsys.readouterr().err.startswith("get_freeze has a handler already")
