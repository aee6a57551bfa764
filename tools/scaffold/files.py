"""Python files: read, extended in memory, and written together or not at all."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_CONFIGURATION = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"
MAX_LINE_LENGTH = 120
"""As in `pyproject.toml`."""


class ScaffoldError(Exception):
    """Nothing was written; the message says why."""


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, empty if there is no such file; raise ScaffoldError if it is not Python."""
    try:
        return ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    except (SyntaxError, OSError, UnicodeError) as error:
        raise ScaffoldError(f"{path} cannot be read: {error}") from error


def definitions(path: Path) -> set[str]:
    """Return the functions and classes that a file defines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in parsed(path).body if isinstance(node, kinds)}


def imported_names(path: Path) -> set[str]:
    """Return the names that the imports of a file bind."""
    imports = (node for node in parsed(path).body if isinstance(node, ast.Import | ast.ImportFrom))
    return {(name.asname or name.name).partition(".")[0] for node in imports for name in node.names}


def imported_from(path: Path, name: str) -> set[str]:
    """Return the modules from which a file imports a name under that name."""
    return {
        node.module
        for node in parsed(path).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name == name and alias.asname in {None, name}
    }


def extended(path: Path, title: str, imports: str, code: str) -> str:
    """Return the formatted text of a file, or of `title` if there is none, with imports and code added."""
    body = parsed(path).body
    text = path.read_text() if path.exists() else title
    has_docstring = not body or (isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))
    head = (ast.parse(text).body[0].end_lineno or 0) if text and has_docstring else 0
    lines = text.splitlines(keepends=True)
    return _formatted(path, "".join([*lines[:head], "\n", imports, *lines[head:], "\n\n", code]))


def _formatted(path: Path, text: str) -> str:
    """Return a file's text with its imports sorted, those not needed removed, and the layout of the project."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    options = ["--config", str(_CONFIGURATION), "--stdin-filename", str(path), "-"]
    for command in (["check", "-q", "--select", "I,F401,F811", "--fix"], ["format", "-q"]):
        try:
            done = subprocess.run([ruff, *command, *options], input=text, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ScaffoldError(f"ruff cannot be run: {error}") from error
        if done.returncode:
            raise ScaffoldError(f"{path.name} cannot be formatted: {done.stderr or done.stdout}")
        text = done.stdout
    return "".join(map(_with_noqa, text.splitlines(keepends=True)))


def _with_noqa(line: str) -> str:
    """Return a line; one that a text of the contract makes too long gets a `noqa`."""
    return f"{line.rstrip()}  # noqa: E501\n" if len(line.rstrip()) > MAX_LINE_LENGTH else line


def write_all(texts: Mapping[Path, str]) -> None:
    """Write every file, or leave all of them as they were and raise ScaffoldError."""
    before = {path: path.read_bytes() if path.exists() else None for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        for path, content in before.items():
            if content is not None:
                path.write_bytes(content)
            elif path.exists():
                path.unlink()
        raise ScaffoldError(f"nothing was written: {error}") from error
