"""`python -m tools.scaffold <operationId>`: the handler and the test class of an operation that has no code yet.

The handler calls the service function of the operation's own name, so the type checker and the test fail until that
is written. What exists is never changed but for its imports.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from keyword import iskeyword
from pathlib import Path
from typing import Any
from urllib.parse import quote

from schemas.contract import Contract, Node, Operation, Parameter, load_contract
from schemas.names import snake_case

ROOT = Path(__file__).resolve().parent.parent
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict[str, Any]"}
_EVERYDAY_IMPORTS = """\
from datetime import datetime
from typing import Any
from services.pages import Page
from services.reads import ReadContext
from services.unit import Unit
"""
_TEST_IMPORTS = """\
from tests.handlers.callers import Tenant
from tests.handlers.guards import takes_credentials
"""


class ScaffoldError(Exception):
    """Nothing was written; the message says why."""


def scaffold(operation_id: str, *, root: Path = ROOT, contract: Contract | None = None) -> list[Path]:
    """Write handler and test class of an operation below `root`, and return the files changed; raises ScaffoldError."""
    contract = contract or load_contract()
    operation = _operation(contract, operation_id)
    handlers = root / "handlers" / f"{operation.module}.py"
    if operation_id in _names(handlers):
        raise ScaffoldError(f"{operation_id} has a handler already, in {handlers.relative_to(root)}")
    for present in sorted((root / "tests" / "handlers").rglob("test_*.py")):
        if _test_class(operation) in _names(present):
            raise ScaffoldError(f"{operation_id} has a test class already, in {present.relative_to(root)}")
    tests = _tests(root, operation)
    source = _Source(contract, operation)
    title = f'"""Operations of the tag {operation.tag}."""\n'
    imports = f"{source.service_import()}\n{_EVERYDAY_IMPORTS}"
    _append(handlers, title, imports, source.handler())
    _append(tests, title, _TEST_IMPORTS, source.test_class())
    _tidy(handlers, tests)
    return [handlers, tests]


def _operation(contract: Contract, operation_id: str) -> Operation:
    found = contract.operations.get(operation_id)
    if found is not None:
        return found
    near = get_close_matches(operation_id, contract.operations, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ScaffoldError(f"the contract has no operation {operation_id}{hint}")


def _names(path: Path) -> set[str]:
    """Return the functions and classes that a module defines; none when there is no such file."""
    if not path.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}


def _tests(root: Path, operation: Operation) -> Path:
    """Return where the test class belongs: into a file of its own where the tag's tests have a directory."""
    directory = root / "tests" / "handlers" / operation.module
    if directory.is_dir():
        return directory / f"test_{operation.id}.py"
    return directory.with_name(f"test_{operation.module}.py")


def _test_class(operation: Operation) -> str:
    return "Test" + "".join(word.capitalize() for word in operation.id.split("_"))


@dataclass(frozen=True)
class _Source:
    """The Python text of one operation."""

    contract: Contract
    operation: Operation

    def service_import(self) -> str:
        """Return the import of the service, under another name where an operation of the tag has its name."""
        module, service = self.operation.module, self._service()
        return f"from services import {module}" + ("" if service == module else f" as {service}")

    def _service(self) -> str:
        module = self.operation.module
        return f"{module}_service" if module in self.contract.operations else module

    def handler(self) -> str:
        """Return the handler: a function of the operation's name that calls a service function of that name."""
        operation = self.operation
        head, first, service = "def", ("unit", "Unit"), f"{self._service()}.{operation.id}"
        if not operation.security and operation.effect == "read":  # anybody may ask: no transaction is needed
            head, first, service = "async def", ("context", "ReadContext"), f"await {service}"
        arguments = [first, *sorted(self._arguments(), key=lambda pair: (pair[0].startswith("**"), pair[1] == "bool"))]
        switches = [name for name, annotation in arguments if annotation == "bool"]  # ruff wants them by name alone
        signature = ", ".join(f"{'*, ' if [name] == switches[:1] else ''}{name}: {kind}" for name, kind in arguments)
        call = f"{service}({', '.join(f'{name}={name}' if name in switches else name for name, _ in arguments)})"
        result = self._result()
        return (
            f"{head} {operation.id}({signature}) -> {result}:\n"
            f'    """{self._raw["summary"].rstrip(".")}."""\n'
            f"    {'' if result == 'None' else 'return '}{call}\n"
        )

    def test_class(self) -> str:
        """Return the test class: who may call it, and that it answers."""
        text = f"class {_test_class(self.operation)}:\n"
        if self.operation.any_scope and self.operation.least_role:
            text += self._credentials_test()
        text += (
            f"    def test_it_answers_{self.operation.success.status}(self, acme: Tenant) -> None:\n"
            f"        answer = {self._caller()}.{self._call()}\n"
            f"        assert answer.status_code == {self.operation.success.status}, answer.text\n"
        )
        return text

    def _credentials_test(self) -> str:
        scope = self.operation.any_scope[0]
        options = [f"scope={scope!r}", f"least_role={self.operation.least_role!r}"]
        options += ["writes=True"] if self.operation.effect == "write" else []
        return (
            f"    def test_it_takes_a_key_with_{scope.replace(':', '_')}_or_a_{self.operation.least_role}"
            "(self, acme: Tenant) -> None:\n"
            f"        takes_credentials(acme, lambda caller: caller.{self._call()}, {', '.join(options)})\n\n"
        )

    @property
    def _raw(self) -> Node:
        raw: Node = self.contract.document["paths"][self.operation.path][self.operation.method.lower()]
        return raw

    def _arguments(self) -> Iterator[tuple[str, str]]:
        """Yield name and type of each argument; the filters of a list, and names that Python keeps, come as one."""
        filters = False
        for parameter in self.operation.parameters:
            if parameter.location == "header":
                continue
            required = parameter.required or "default" in self.contract.resolve(parameter.schema)
            name = snake_case(parameter.name)
            if iskeyword(name) or (self._is_list and not required and parameter.name != "cursor"):
                filters = True
            else:
                yield name, self._type(parameter.schema) + ("" if required else " | None")
        if self.operation.body:
            yield "body", "dict[str, Any]"
        if filters:
            yield "**filters", "Any"

    def _type(self, schema: Node) -> str:
        schema = self.contract.resolve(schema)
        if schema.get("format") == "date-time":
            return "datetime"
        if schema.get("type") == "array":
            return f"list[{self._type(schema['items'])}]"
        return _TYPES.get(schema.get("type", ""), "Any")

    def _result(self) -> str:
        if self.operation.success.status == 204:
            return "None"
        return "Page" if self._is_list else "object"

    @property
    def _is_list(self) -> bool:
        return "nextCursor" in self.contract.resolve(self.operation.success.schema or {}).get("properties", {})

    def _caller(self) -> str:
        if self.operation.any_scope:
            return f"acme.key({self.operation.any_scope[0]!r})"
        return f"acme.person({self.operation.least_role!r})" if self.operation.least_role else "acme.anybody"

    def _call(self) -> str:
        """Return a call of the operation with the contract's own examples: `post('/v1/freezes', {…})`."""
        path = self.operation.path
        given: list[str] = []
        for raw, parameter in self._parameter_examples():
            if parameter.location == "path":
                path = path.replace(f"{{{parameter.name}}}", quote(str(raw), safe=""))
            elif parameter.required and parameter.location == "query":
                given.append(f"{parameter.name}={raw!r}")
        body = [repr(self._body_example())] if self.operation.body else []
        return f"{self.operation.method.lower()}({', '.join([repr(path), *body, *given])})"

    def _parameter_examples(self) -> Iterator[tuple[Any, Parameter]]:
        item = self.contract.document["paths"][self.operation.path]
        rows = [self.contract.resolve(row) for row in (*item.get("parameters", ()), *self._raw.get("parameters", ()))]
        examples = {(row["in"], row["name"]): row.get("example") for row in rows}
        for parameter in self.operation.parameters:
            yield examples[parameter.location, parameter.name], parameter

    def _body_example(self) -> Any:
        contents = self.contract.resolve(self._raw["requestBody"])["content"]
        content = contents.get("application/json") or next(iter(contents.values()))
        if "example" in content:
            return content["example"]
        return self.contract.resolve(next(iter(content["examples"].values())))["value"]


def _append(path: Path, title: str, imports: str, code: str) -> None:
    """Add code at the end of a file, which is begun with `title` when there is none, and imports at its head."""
    text = path.read_text() if path.exists() else title
    head = _line_after_docstring(text)
    lines = text.splitlines(keepends=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join([*lines[:head], "\n", imports, *lines[head:], "\n\n", code]))


def _line_after_docstring(text: str) -> int:
    body = ast.parse(text).body
    is_docstring = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return (body[0].end_lineno or 0) if is_docstring else 0


def _tidy(*paths: Path) -> None:
    """Sort imports, drop those that are not needed, and format."""
    files = [str(path) for path in paths]
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    config = ["--config", str(ROOT / "pyproject.toml")]
    subprocess.run([*ruff, "check", "-q", *config, "--select", "I,F401,F811", "--fix", *files], check=True)
    subprocess.run([*ruff, "format", "-q", *config, *files], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Scaffold the operation named on the command line; return 1 with a message when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m tools.scaffold", description="Begin the code of an operation.")
    parser.add_argument("operation_id", metavar="operationId")
    try:
        files = scaffold(parser.parse_args(arguments).operation_id)
    except ScaffoldError as error:
        print(error, file=sys.stderr)
        return 1
    for path in files:
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
