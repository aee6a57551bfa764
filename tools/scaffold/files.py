"""Python files: read, and extended in memory."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

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


def imports(path: Path) -> list[tuple[str, str, str]]:
    """Return what a file imports: module, name, and the name that it has in the file."""
    return [
        (getattr(node, "module", None) or "", name.name, (name.asname or name.name).partition(".")[0])
        for node in parsed(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    ]


def extended(path: Path, title: str, imports: str, code: str) -> str:
    """Return the text of a file, or of `title` if there is none, with imports and code added."""
    text = path.read_text() if path.exists() else title
    tree = ast.parse(text)
    head = (tree.body[0].end_lineno or 0) if ast.get_docstring(tree, clean=False) is not None else 0
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:head], "\n", imports, *lines[head:], "\n\n", code])


def formatted(texts: Mapping[Path, str]) -> dict[Path, str]:
    """Return texts of files with their imports sorted, those not needed removed, and the layout of the project."""
    ruff = [str(Path(sys.executable).with_name("ruff")), "--config", str(_CONFIGURATION)]
    with TemporaryDirectory() as folder:
        copies = {path: Path(folder) / f"{number}_{path.name}" for number, path in enumerate(texts)}
        for path, copy in copies.items():
            copy.write_text(texts[path])
        for command in (
            ["check", "-q", "--no-cache", "--select", "I,F401,F811", "--fix"],
            ["format", "-q", "--no-cache"],
        ):
            done = subprocess.run([*ruff, *command, folder], capture_output=True, text=True, check=False)
            if done.returncode:
                raise ScaffoldError(f"the code cannot be formatted: {done.stderr or done.stdout}")
        written = {path: copy.read_text().splitlines(keepends=True) for path, copy in copies.items()}
    return {path: "".join(map(_with_noqa, lines)) for path, lines in written.items()}


def _with_noqa(line: str) -> str:
    """Return a line; one that a text of the contract makes too long gets a `noqa`."""
    return f"{line.rstrip()}  # noqa: E501\n" if len(line.rstrip()) > MAX_LINE_LENGTH else line
