"""What the scaffold writes fits the contract and the layout, and fails until it is finished; or nothing is written."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.contract import Operation, load_contract, parse_contract
from tools.contract import lint
from tools.contract.sources import FOLDER, SHARED
from tools.scaffold import ROOT, ScaffoldError, scaffold
from tools.scaffold.__main__ import main
from tools.scaffold.skeleton import derive_operation_id

OPERATIONS = load_contract().operations
COMMENT = "/v1/freezes/{freezeId}/comment"
HANDLER = "def comment_freeze(): ...\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with the sources of the contract, the packages of the services, and no code."""
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    for package in (ROOT / "services").iterdir():
        if (package / "__init__.py").exists():
            directory = tmp_path / "services" / package.name
            directory.mkdir(parents=True)
            (directory / "__init__.py").write_text('"""A package."""\n')
    return tmp_path


@pytest.fixture
def small_root(root: Path) -> Path:
    """Return such a directory with the operations of one tag, which are read faster."""
    for path in (root / FOLDER).iterdir():
        if path.name not in {SHARED, "freezes.yaml"}:
            path.unlink()
    return root


def files_below(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def scaffold_existing(operation_id: str, root: Path, service: str | None = None) -> list[Path]:
    operation = OPERATIONS[operation_id]
    return scaffold(operation.method, operation.path, service=service, root=root)


def assert_refused(root: Path, route: str, message: str, **choices: str) -> None:
    before = files_below(root)
    with pytest.raises(ScaffoldError, match=re.escape(message)):
        scaffold(*route.split(), **choices, root=root)
    assert files_below(root) == before


def definitions(path: Path) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]


def signature(path: Path, name: str) -> str:
    found = next(node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == name)
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    return f"{ast.unparse(found.args)} -> {ast.unparse(found.returns or ast.Constant(None))}"


def scaffolded(root: Path, route: str, **choices: str) -> Operation:
    """Scaffold an operation, and return it as the contract has it."""
    method, path = route.split()
    scaffold(method, path, **choices, root=root)
    operations = parse_contract((root / "openapi.yaml").read_bytes()).operations.values()
    return next(one for one in operations if (one.method, one.path) == (method, path))


class TestSkeleton:
    def test_new_operation_gets_contract_handler_stub_and_test(self, small_root: Path) -> None:
        written = scaffold("POST", COMMENT, root=small_root)
        assert [str(path.relative_to(small_root)) for path in written] == [
            "contract/freezes.yaml",
            "openapi.yaml",
            "handlers/freezes.py",
            "services/freezes/comment.py",
            "tests/handlers/test_freezes.py",
        ]
        operation = parse_contract((small_root / "openapi.yaml").read_bytes()).operations["comment_freeze"]
        assert (operation.tag, operation.effect, operation.least_role) == ("Freezes", "write", "member")
        assert operation.security == ({"ApiKey": ["freeze:write"]}, {"Session": []})
        assert {"freeze_not_found", "idempotency_key_reuse", "validation_failed"} <= operation.error_codes
        assert operation.success.schema == {"$ref": "#/components/schemas/Freeze"}  # the object that the path names

    @pytest.mark.check
    @pytest.mark.slow(5)
    def test_linter_reports_only_what_the_author_has_to_write(self, root: Path) -> None:
        scaffold("POST", COMMENT, root=root)
        assert [f"{one.where}: {one.message}" for one in lint(root)] == [
            "comment_freeze: writes and has no x-audit",
            'comment_freeze: description: "" is shorter than 1 character',
            "components.schemas.CommentFreezeRequest: has no description",
        ]

    def test_rest_of_the_source_stays_unchanged(self, small_root: Path) -> None:
        path = small_root / FOLDER / "freezes.yaml"
        before = path.read_text().splitlines()
        scaffold("POST", COMMENT, root=small_root)
        remaining = iter(path.read_text().splitlines())
        assert all(line in remaining for line in before)

    def test_creation_links_to_the_operation_that_reads_the_object(self, small_root: Path) -> None:
        assert scaffolded(small_root, "POST /v1/freezes/{freezeId}/remarks").success.location is None
        scaffold("GET", "/v1/freezes/{freezeId}/notes/{freezeId}", root=small_root)
        success = scaffolded(small_root, "POST /v1/freezes/{freezeId}/notes").success
        assert (success.status, success.schema) == (201, {"$ref": "#/components/schemas/Note"})
        assert success.location == ("/v1/freezes/{freezeId}/notes/{freezeId}", {"freezeId": "$response.body#/id"})

    def test_list_takes_limit_and_cursor(self, small_root: Path) -> None:
        operation = scaffolded(small_root, "GET /v1/freezes/{freezeId}/comments")
        assert [one.name for one in operation.parameters] == ["freezeId", "limit", "cursor"]
        assert "invalid_cursor" in operation.error_codes

    def test_second_method_is_added_to_its_path(self, small_root: Path) -> None:
        operation = scaffolded(small_root, "DELETE /v1/freezes/{freezeId}")
        assert (operation.id, operation.success.status) == ("delete_freeze", 204)

    def test_chosen_name_and_tag_replace_derived_values(self, small_root: Path) -> None:
        choices = {"name": "add_remark", "tag": "Freezes", "service": "freezes"}
        operation = scaffolded(small_root, "POST /v1/remarks", **choices)
        assert (operation.id, operation.tag) == ("add_remark", "Freezes")

    @pytest.mark.parametrize(
        ("route", "expected"),
        {
            "GET /v1/freezes": "list_freezes",
            "GET /v1/branches/{branchId}": "get_branch",
            "POST /v1/freezes": "create_freeze",
            "POST /v1/freezes/lift": "lift_freezes",
            "POST /v1/freezes/{freezeId}/lift": "lift_freeze",
            "POST /v1/freezes/{freezeId}/thaw-override": "thaw_override_freeze",
            "PATCH /v1/repositories/{repoId}": "update_repository",
            "PUT /v1/repositories/{repoId}/settings": "replace_setting",
            "DELETE /v1/api-keys/{apiKeyId}": "delete_api_key",
            "GET /v1/overview": "get_overview",
        }.items(),
    )
    def test_operation_id_follows_from_method_and_path(self, route: str, expected: str) -> None:
        method, path = route.split()
        assert derive_operation_id(method.lower(), path) == expected


class TestCode:
    @pytest.mark.parametrize(
        ("operation_id", "expected"),
        {
            "get_freeze": "uow: UnitOfWork, freeze_id: str -> object",
            "unwatch_branch": "uow: UnitOfWork, branch_id: str -> None",
            "lookup_pull_request": "uow: UnitOfWork, ref: str, repo: str | None -> object",
            "list_freezes": "uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any -> Page",
            "get_health": "context: ReadContext -> object",
        }.items(),
    )
    def test_handler_and_stub_take_the_parameters_of_the_contract(
        self, operation_id: str, expected: str, root: Path
    ) -> None:
        handlers, stub, _ = scaffold_existing(operation_id, root, "core")
        assert signature(handlers, operation_id) == signature(stub, operation_id) == expected

    def test_handler_calls_the_stub_which_raises(self, root: Path) -> None:
        handlers, stub, _ = scaffold_existing("get_freeze", root)
        assert "from services.freezes import freezes\n" in handlers.read_text()
        assert "    return freezes.get_freeze(uow, freeze_id)\n" in handlers.read_text()
        assert stub == root / "services" / "freezes" / "freezes.py"
        assert "    raise NotImplementedError\n" in stub.read_text()

    def test_stub_is_imported_under_another_name_when_its_own_is_taken(self, small_root: Path) -> None:
        (small_root / "handlers").mkdir()
        (small_root / "handlers" / "freezes.py").write_text("from a import b as comment\n\nx = comment\n")
        handlers, *_ = scaffold("POST", COMMENT, root=small_root)[2:]
        assert "from services.freezes import comment as comment_service\n" in handlers.read_text()
        assert "    return comment_service.comment_freeze(uow, freeze_id, body)\n" in handlers.read_text()

    def test_stub_lies_in_the_package_that_the_tag_uses_most(self, root: Path) -> None:
        (root / "handlers").mkdir()
        text = "from services.core.tokens import a, b\nfrom services.schedules import c\n\nx = a, b, c\n"
        (root / "handlers" / "freezes.py").write_text(text)
        assert scaffold_existing("get_freeze", root)[1] == root / "services" / "schedules" / "freezes.py"

    def test_test_class_requests_the_example_of_the_contract(self, root: Path) -> None:
        text = scaffold_existing("create_freeze", root)[2].read_text()
        assert 'acme.key("freeze:write").post(' in text
        assert '"reason": "Database migration until Friday"' in text
        assert "answer.status_code == 201" in text

    def test_slash_in_an_example_is_escaped_in_the_path(self, root: Path) -> None:
        assert '"/v1/repos/acme%2Fweb"' in scaffold_existing("get_repository", root)[2].read_text()

    def test_test_gets_its_own_file_where_the_tag_has_a_directory(self, root: Path) -> None:
        directory = root / "tests" / "handlers" / "freezes"
        directory.mkdir(parents=True)
        tests = scaffold_existing("get_freeze", root)[2]
        assert tests == directory / "test_get_freeze.py"
        assert definitions(tests) == ["TestGetFreeze"]

    def test_existing_code_stays_and_imports_are_merged(self, root: Path) -> None:
        handlers, stub, tests = scaffold_existing("get_freeze", root)
        scaffold_existing("list_freezes", root)
        scaffold_existing("create_freeze", root)
        assert definitions(handlers) == definitions(stub) == ["get_freeze", "list_freezes", "create_freeze"]
        assert definitions(tests) == ["TestGetFreeze", "TestListFreezes", "TestCreateFreeze"]
        assert handlers.read_text().count("from services.freezes import freezes") == 1

    def test_imported_names_exist_in_the_project(self, root: Path) -> None:
        for operation_id in ("list_freezes", "get_health", "create_freeze", "list_audit_entries"):
            for path in scaffold_existing(operation_id, root, "core"):
                for node in ast.parse(path.read_text()).body:
                    if isinstance(node, ast.ImportFrom) and node.module and node.module != "services.core":
                        module = importlib.import_module(node.module)
                        assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)

    @pytest.mark.check
    @pytest.mark.slow(16)
    def test_code_of_every_operation_has_no_lint(self, root: Path) -> None:
        for operation_id in sorted(OPERATIONS):
            scaffold_existing(operation_id, root, "core")
        shutil.copy(ROOT / "pyproject.toml", root)
        options = ["--ignore", "INP001", "--config", "lint.isort.known-first-party = ['services', 'tests']"]
        command = [sys.executable, "-m", "ruff", "check", *options, str(root)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


class TestRefusals:
    @pytest.mark.parametrize(
        ("route", "choices", "message"),
        [
            (f"LOOK {COMMENT}", {}, "LOOK is not a method of an operation"),
            ("POST v1/freezes", {}, "v1/freezes is not a path such as"),
            ("POST /v1/freezes/", {}, "/v1/freezes/ is not a path such as"),
            ("POST /{freezeId}", {}, "is not a path such as"),
            ("POST /v1/freezes/{kettleId}/boil", {}, "has no path parameter kettleId; add it first"),
            ("POST /v1/kettles", {}, "no path begins like /v1/kettles; choose a tag with --tag"),
            ("POST /v1/kettles", {"tag": "Kettles"}, "the contract has no tag Kettles; it has Freezes"),
            (f"POST {COMMENT}", {"name": "get_freeze"}, "is called get_freeze; choose another name with --id"),
            (f"POST {COMMENT}", {"name": "liftFreeze"}, "the operationId liftFreeze is not snake_case"),
            (f"POST {COMMENT}", {"service": "kettles"}, "services/kettles is not a package"),
            ("POST /v1/freezes", {"name": "start_freeze"}, "the contract has this operation already, as create_freeze"),
        ],
    )
    def test_nothing_is_written_when_the_request_is_wrong(
        self, route: str, choices: dict[str, str], message: str, small_root: Path
    ) -> None:
        assert_refused(small_root, route, message, **choices)

    @pytest.mark.parametrize(
        ("file", "text", "message"),
        [
            ("handlers/freezes.py", HANDLER, "has a handler already, in handlers/freezes.py"),
            ("handlers/freezes.py", "def broken(:\n", "handlers/freezes.py cannot be read"),
            ("services/freezes/comment.py", HANDLER, "has a service function already"),
            ("services/freezes/comment.py", "def broken(:\n", "comment.py cannot be read"),
            ("tests/handlers/freezes/test_any.py", "class TestCommentFreeze: ...\n", "has a test class already"),
            ("tests/handlers/freezes/test_any.py", "def broken(:\n", "test_any.py cannot be read"),
            ("contract/freezes.yaml", "paths: [\n", "the contract cannot be read: contract/freezes.yaml:1: not YAML"),
        ],
    )
    def test_nothing_is_written_when_a_file_is_in_the_way(
        self, file: str, text: str, message: str, small_root: Path
    ) -> None:
        (small_root / file).parent.mkdir(parents=True, exist_ok=True)
        (small_root / file).write_text(text)
        assert_refused(small_root, f"POST {COMMENT}", message)

    def test_command_prints_the_reason_and_fails(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["GET", "/v1/freezes/{freezeId}"]) == 1
        assert capsys.readouterr().err.startswith("get_freeze has a handler already, in handlers/freezes.py")
