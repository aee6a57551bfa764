"""Begins an operation: its skeleton in the contract, its handler, a service stub and a test class, or nothing at all.

`python -m tools.scaffold POST /v1/freezes/{freezeId}/comment` derives the operationId, the tag and the credentials from
the path and from the operations beside it; `--id`, `--tag` and `--service` replace what it derives. An operation that
the contract already has gets its code only. What is written fails until it is finished: the linter names what the
skeleton lacks, the stub raises, the test expects success.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from pathlib import Path

from schemas.contract import Contract, ContractError, Operation, build_contract
from tools.contract import OUTPUT, Built, build, read_sources
from tools.contract.sources import FOLDER
from tools.scaffold import files
from tools.scaffold.code import Source
from tools.scaffold.files import ScaffoldError
from tools.scaffold.skeleton import add_skeleton

__all__ = ["ROOT", "Choices", "ScaffoldError", "scaffold"]

ROOT = Path(__file__).resolve().parent.parent.parent
_EVERYDAY_IMPORTS = """\
from datetime import datetime
from typing import Any
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
"""
_TEST_IMPORTS = "from tests.handlers.callers import Tenant\n"


@dataclass(frozen=True, slots=True)
class Choices:
    """Names that replace derived ones."""

    operation_id: str | None = None
    tag: str | None = None
    service: str | None = None
    """The package of `services/` that holds the stub."""


def scaffold(method: str, path: str, choices: Choices | None = None, *, root: Path = ROOT) -> list[Path]:
    """Write the beginning of an operation below `root` and return the changed files; raise ScaffoldError on failure."""
    choices = choices or Choices()
    sources = read_sources(root)
    built, contract = _made(tuple(sources.items()))
    texts: dict[Path, str] = {}
    operation = _find(contract, method, path)
    if operation is None:
        name, text = add_skeleton(
            built.document, sources, method.lower(), path, name=choices.operation_id, tag=choices.tag
        )
        built, contract = _made(tuple({**sources, name: text.encode()}.items()))
        texts = {root / FOLDER / name: text, root / OUTPUT: built.text.decode()}
        operation = _find(contract, method, path)
        assert operation is not None
    elif choices.operation_id or choices.tag:
        raise ScaffoldError(f"the contract has this operation already, as {operation.id} of the tag {operation.tag}")
    texts |= _code(root, contract, operation, choices.service)
    files.write_all(texts)
    return list(texts)


@lru_cache(maxsize=4)
def _made(sources: tuple[tuple[str, bytes], ...]) -> tuple[Built, Contract]:
    """Return the contract of the sources; raise ScaffoldError if they give none."""
    built = build(dict(sources))
    if built.blocking:
        first = built.blocking[0]
        raise ScaffoldError(f"the contract cannot be read: {first.file}:{first.line}: {first.message}")
    try:
        return built, build_contract(b"", built.document.root)
    except ContractError as error:
        raise ScaffoldError(f"the contract cannot be read: {error}") from error


def _find(contract: Contract, method: str, path: str) -> Operation | None:
    found = (one for one in contract.operations.values() if (one.method, one.path) == (method.upper(), path))
    return next(found, None)


def _code(root: Path, contract: Contract, operation: Operation, service: str | None) -> dict[Path, str]:
    handlers = root / "handlers" / f"{operation.module}.py"
    tests = _tests(root, operation)
    defined = files.definitions(handlers)
    if operation.id in defined:
        raise ScaffoldError(f"{operation.id} has a handler already, in {handlers.relative_to(root)}")
    test_class = "Test" + "".join(word.capitalize() for word in operation.id.split("_"))
    for present in sorted((root / "tests" / "handlers").rglob("test_*.py")):
        if test_class in files.definitions(present):
            raise ScaffoldError(f"{operation.id} has a test class already, in {present.relative_to(root)}")
    package = service or _package(handlers, operation)
    directory = root / "services" / package
    if not directory.is_dir():
        raise ScaffoldError(f"services/{package} is not a package; choose one with --service")
    module = _noun(operation)
    stub = directory / f"{module}.py"
    if operation.id in files.definitions(stub):
        raise ScaffoldError(f"{operation.id} has a service function already, in {stub.relative_to(root)}")
    taken = defined | set(contract.operations) | files.imported_names(handlers)
    known = f"services.{package}" in files.imported_from(handlers, module)
    alias = module if known or module not in taken else f"{module}_service"
    source = Source(contract, operation, alias)
    renamed = "" if alias == module else f" as {alias}"
    title = f'"""Operations of the tag {operation.tag}."""\n'
    return {
        handlers: files.extended(
            handlers, title, f"from services.{package} import {module}{renamed}\n{_EVERYDAY_IMPORTS}", source.handler()
        ),
        stub: files.extended(stub, f'"""{source.summary}."""\n', _EVERYDAY_IMPORTS, source.stub()),
        tests: files.extended(tests, title, _TEST_IMPORTS, source.test_class(test_class)),
    }


def _package(handlers: Path, operation: Operation) -> str:
    """Return the package that the handlers of the tag use most, or the one that is called like the tag."""
    if not handlers.exists():
        return operation.module
    used = [
        node.module.split(".")[1]
        for node in files.parsed(handlers).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("services.")
        for _ in node.names
    ]
    candidates = [package for package in used if package != "core"]
    return max(candidates, key=candidates.count, default=operation.module)


def _noun(operation: Operation) -> str:
    """Return the module of the stub: the last segment of the path that is not a parameter."""
    names = [part for part in operation.path.split("/") if part and not part.startswith("{")]
    name = names[-1].replace("-", "_").replace(".", "_")
    return operation.id if iskeyword(name) else name


def _tests(root: Path, operation: Operation) -> Path:
    """Return the file of the test class: one of its own where the tests of the tag have a directory."""
    directory = root / "tests" / "handlers" / operation.module
    if directory.is_dir():
        return directory / f"test_{operation.id}.py"
    return directory.with_name(f"test_{operation.module}.py")
