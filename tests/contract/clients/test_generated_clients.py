"""Generated clients freeze and lift, against the service and a later version; one understands every answer shown.

Each program freezes acme/web's main branch, waits, lifts the freeze after a line on its standard input, is refused
a second lift, and reads the list of repositories page by page. It prints a line for each step.
"""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rules.contract_names import snake_case
from schemas.contract import CONTRACT_PATH, load_contract
from tests.contract.clients.later_version import later_version
from tools.contract.document import Document, Operation
from tools.sandbox.clients import Client, Refused
from tools.sandbox.temporary import temporary_sandbox
from tools.sdk import (
    generate_go_client,
    generate_pydantic_client,
    generate_python_client,
    generate_typescript_client,
    generate_typescript_types,
)

pytestmark = [pytest.mark.check, pytest.mark.slow(90)]
HERE = Path(__file__).parent
NODE_MODULES = CONTRACT_PATH.parent / "node_modules"
TIMEOUT = 60.0
DOCUMENT = Document(load_contract().document)
ANSWERS = [
    pytest.param(
        content["schema"]["$ref"].rpartition("/")[2], DOCUMENT.resolved(example)["value"], id=f"{operation.id}-{name}"
    )
    for operation in DOCUMENT.operations()
    for response in operation.successes.values()
    for content in response.get("content", {}).values()
    if "$ref" in content.get("schema", {})
    for name, example in content.get("examples", {}).items()
]
TYPESCRIPT_OPTIONS = ("--strict", "--target", "es2022", "--types", "node", "--skipLibCheck")
GO_OPTIONS = ("-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""Neither optimised nor for a debugger: a quarter less to do where Go's cache lacks the standard library too."""


@cache
def python_client(folder: Path) -> Path:
    """Generate the Python client, once for all tests here; return the directory to import it from."""
    generate_python_client(folder / "change_freeze_client")
    return folder


def python_program(folder: Path) -> list[str]:
    """Return the command of the program of the Python client."""
    program = shutil.copy(HERE / "python_client.py", python_client(folder.with_name("python-client")))
    return [sys.executable, str(program)]


def pydantic_program(folder: Path) -> list[str]:
    """Generate openapi-generator's Python client; return the command of its program, which also reads the document."""
    generate_pydantic_client(folder / "client")
    (folder / "openapi_client").symlink_to(folder / "client" / "openapi_client")
    program = shutil.copy(HERE / "pydantic_client.py", folder)
    return [sys.executable, str(program)]


def openapi_fetch_program(folder: Path) -> list[str]:
    """Generate the types of openapi-fetch and compile its program."""
    generate_typescript_types(folder / "schema.d.ts")
    return compiled_typescript(folder, "openapi_fetch", "nodenext")


def typescript_fetch_program(folder: Path) -> list[str]:
    """Generate the client typescript-fetch and compile it with its program."""
    generate_typescript_client(folder / "client")
    return compiled_typescript(folder, "typescript_fetch", "commonjs")


def go_program(folder: Path) -> list[str]:
    """Generate the Go client and compile it with its program."""
    generate_go_client(folder)
    (folder / "program").mkdir()
    shutil.copy(HERE / "go_client.go", folder / "program" / "main.go")
    # Without its directory in the result, a client that is the same as before comes from Go's cache.
    offline = {
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod -trimpath",
        "GOTOOLCHAIN": "local",
        "GOENV": "off",
        "CGO_ENABLED": "0",
    }
    go = str(Path(sys.executable).with_name("go"))
    run([go, "build", *GO_OPTIONS, "-o", str(folder / "go_client"), "./program"], folder, offline)
    return [str(folder / "go_client")]


def compiled_typescript(folder: Path, name: str, modules: str) -> list[str]:
    """Compile a program with everything that it imports."""
    node = shutil.which("node")
    if node is None or not (NODE_MODULES / ".bin" / "tsc").exists():
        pytest.skip("Node.js or the npm tools are not installed (npm ci; `make lint` and `make sdk` run it)")
    shutil.copy(HERE / f"{name}.ts", folder)
    if modules == "nodenext":
        (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(NODE_MODULES)
    run([node, str(NODE_MODULES / ".bin" / "tsc"), *TYPESCRIPT_OPTIONS, "--module", modules, f"{name}.ts"], folder)
    return [node, str(folder / f"{name}.js")]


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | (environment or {}), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "openapi-python-client": python_program,
    "python": pydantic_program,
    "openapi-typescript": openapi_fetch_program,
    "typescript-fetch": typescript_fetch_program,
    "go": go_program,
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[dict[str, Any]]:
    with temporary_sandbox() as report:
        yield report


@pytest.fixture(scope="module", params=list(PROGRAMS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of a program with a generated client; an unexpected warning of its generator is an error."""
    return PROGRAMS[request.param](tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def imported_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the name by which the Python client is imported."""
    folder = python_client(tmp_path_factory.getbasetemp() / "python-client")
    sys.path.insert(0, str(folder))
    yield "change_freeze_client"
    sys.path.remove(str(folder))


class PullRequest:
    """An open pull request into acme/web's main branch, as a maintainer at GitHub sees it."""

    def __init__(self, sandbox: dict[str, Any]) -> None:
        self.fake_github = Client(sandbox["githubUrl"], sandbox["githubToken"])
        self.repository = "/repos/acme/web"
        opened = self.fake_github.call("GET", f"{self.repository}/pulls?state=open&base=main")
        self.number = opened[0]["number"]

    def is_refused(self) -> bool:
        with pytest.raises(Refused) as refused:
            self.fake_github.call("PUT", f"{self.repository}/pulls/{self.number}/merge", {})
        return refused.value.status == 405 and "change-freeze/main" in refused.value.message

    def is_mergeable(self) -> bool:
        found = self.fake_github.call("GET", f"{self.repository}/pulls/{self.number}")
        return bool(found["mergeable_state"] == "clean")


def follow_steps(command: list[str], base_url: str, sandbox: dict[str, Any]) -> None:
    """Run a program, and assert that each step has its effect at GitHub."""
    pull_request = PullRequest(sandbox)
    arguments = [*command, base_url, sandbox["organizations"]["acme"]["keys"]["all"]]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        try:
            frozen = running.stdout.readline().split()
            assert frozen[:1] == ["frozen"], running.stderr.read()
            assert pull_request.is_refused()
            output, errors = running.communicate("lift\n", timeout=TIMEOUT)
        finally:
            running.kill()
    steps = dict(line.split() for line in output.splitlines())
    assert steps.keys() == {"lifted", "refused", "listed"}, errors
    assert (steps["lifted"], steps["refused"]) == (frozen[1], "not_frozen")
    assert int(steps["listed"]) == len(sandbox["organizations"]["acme"]["repositories"])
    assert pull_request.is_mergeable()


def test_client_freezes_and_lifts(program: list[str], sandbox: dict[str, Any]) -> None:
    follow_steps(program, sandbox["baseUrl"], sandbox)


def test_client_reads_answers_of_a_later_version(program: list[str], sandbox: dict[str, Any]) -> None:
    with later_version(sandbox["baseUrl"]) as (base_url, added):
        follow_steps(program, base_url, sandbox)
    assert added["properties"] > 30  # more if the freeze is polled more often
    assert added["values"] > 20


def module_of(operation: Operation) -> str:
    tag = operation.raw["tags"][0].lower().replace(" ", "_").replace("-", "_")
    return f"api.{tag}.{operation.id}"


@pytest.mark.parametrize("operation", list(DOCUMENT.operations()), ids=lambda operation: operation.id)
def test_each_operation_can_be_called_from_the_client(operation: Operation, imported_client: str) -> None:
    assert callable(importlib.import_module(f"{imported_client}.{module_of(operation)}").sync_detailed)


@pytest.mark.parametrize(("model", "value"), ANSWERS)
def test_each_response_is_parsed_by_the_client(model: str, value: dict[str, Any], imported_client: str) -> None:
    parsed = getattr(importlib.import_module(f"{imported_client}.models"), model).from_dict(value)
    assert parsed.to_dict().keys() == value.keys()
    schema = load_contract().document["components"]["schemas"].get(model, {})
    if "properties" in schema or not schema.get(
        "additionalProperties"
    ):  # not what Slack defines, whose names are its own
        assert {snake_case(name) for name in value} <= {name.removesuffix("_") for name in dir(parsed)}


def test_repository_name_in_a_path_is_escaped(imported_client: str) -> None:
    module = importlib.import_module(f"{imported_client}.api.repositories.get_repository")
    assert module._get_kwargs(repo_id="acme/web")["url"] == "/v1/repos/acme%2Fweb"
