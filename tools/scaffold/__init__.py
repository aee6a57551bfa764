"""Begins an operation: its skeleton in the contract, its handler, a service stub and a test class, or nothing at all.

`python -m tools.scaffold POST /v1/freezes/{freezeId}/comment` derives the operationId, the tag and the credentials from
the path and from the operations beside it; `--id`, `--tag` and `--service` replace what it derives. An operation that
the contract already has gets its code only. What is written fails until it is finished: the linter names what the
skeleton lacks, the stub raises, the test expects success.
"""

from functools import lru_cache
from keyword import iskeyword
from pathlib import Path

from schemas.contract import Contract, ContractError, Operation, build_contract
from tools.contract import OUTPUT, Built, build, read_sources
from tools.contract.sources import FOLDER
from tools.contract.vocabulary import pascal_case
from tools.scaffold import files
from tools.scaffold.code import Source
from tools.scaffold.files import ScaffoldError
from tools.scaffold.skeleton import add_skeleton

__all__ = ["ROOT", "ScaffoldError", "scaffold"]

ROOT = Path(__file__).resolve().parent.parent.parent
_EVERYDAY_IMPORTS = """\
from datetime import datetime
from typing import Any
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
"""
_TEST_IMPORTS = "from tests.handlers.callers import Tenant\n"


def scaffold(
    method: str,
    path: str,
    *,
    name: str | None = None,
    tag: str | None = None,
    service: str | None = None,
    root: Path = ROOT,
) -> list[Path]:
    """Write the beginning of an operation below `root` and return the changed files; raise ScaffoldError on failure.

    The names replace derived ones; `service` is the package of `services/` that holds the stub.
    """
    sources = read_sources(root)
    built, contract = _made(tuple(sources.items()))
    texts: dict[Path, str] = {}
    operation = _find(contract, method, path)
    if operation is None:
        file, text = add_skeleton(built.document, sources, method.lower(), path, name=name, tag=tag)
        built, contract = _made(tuple({**sources, file: text.encode()}.items()))
        texts = {root / FOLDER / file: text, root / OUTPUT: built.text.decode()}
        operation = _find(contract, method, path)
        assert operation is not None
    elif name or tag:
        raise ScaffoldError(f"the contract has this operation already, as {operation.id} of the tag {operation.tag}")
    texts |= _code(root, contract, operation, service)
    for file_path, text in texts.items():
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(text)
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
    tests = root / "tests" / "handlers" / f"test_{operation.module}.py"
    if (folder := tests.with_name(operation.module)).is_dir():
        tests = folder / f"test_{operation.id}.py"
    package = service or _package(handlers, operation)
    directory = root / "services" / package
    if not directory.is_dir():
        raise ScaffoldError(f"services/{package} is not a package; choose one with --service")
    module = _noun(operation)
    stub = directory / f"{module}.py"
    test_class = f"Test{pascal_case(operation.id)}"
    written = [("handler", handlers, operation.id), ("service function", stub, operation.id)]
    written += [("test class", each, test_class) for each in sorted((root / "tests/handlers").rglob("test_*.py"))]
    for what, file, name in written:
        if name in files.definitions(file):
            raise ScaffoldError(f"{operation.id} has a {what} already, in {file.relative_to(root)}")
    imported = files.imports(handlers)
    taken = {*files.definitions(handlers), *contract.operations, *(bound for _, _, bound in imported)}
    known = (f"services.{package}", module, module) in imported
    alias = module if known or module not in taken else f"{module}_service"
    source = Source(contract, operation, alias)
    handler, function = source.functions()
    renamed = "" if alias == module else f" as {alias}"
    title = f'"""Operations of the tag {operation.tag}."""\n'
    imports = f"from services.{package} import {module}{renamed}\n{_EVERYDAY_IMPORTS}"
    texts = {
        handlers: files.extended(handlers, title, imports, handler),
        stub: files.extended(stub, f'"""{source.summary}."""\n', _EVERYDAY_IMPORTS, function),
        tests: files.extended(tests, title, _TEST_IMPORTS, source.test_class(test_class)),
    }
    return files.formatted(texts)


def _package(handlers: Path, operation: Operation) -> str:
    """Return the package that the handlers of the tag use most, or the one that is called like the tag."""
    used = [module.split(".") for module, _, _ in files.imports(handlers)]
    packages = [parts[1] for parts in used if parts[0] == "services" and parts[1:2] not in ([], ["core"])]
    return max(packages, key=packages.count, default=operation.module)


def _noun(operation: Operation) -> str:
    """Return the module of the stub: the last segment of the path that is not a parameter."""
    names = [part for part in operation.path.split("/") if part and not part.startswith("{")]
    name = names[-1].replace("-", "_").replace(".", "_")
    return operation.id if iskeyword(name) else name
