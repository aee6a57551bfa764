"""Check by mutation that the tests notice when a rule that matters is broken.

`python -m tools.mutants` applies each mutant of `mutants.toml` in turn, runs the tests whose
coverage enters the changed line, stops at the first failure, and restores the file. A mutant that no test notices
within 60 seconds has survived. Record the coverage first:

    python -m pytest -n 2 --cov=app --cov=rules --cov=services --cov=models --cov-context=test --cov-report=

The mutants are chosen by meaning (a bound, a missing lease check, a swallowed condition), not generated. This is no
part of `make check`: run it before and after a large move of code, and compare.
"""

import argparse
import ast
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

import coverage

MUTANT_TIMEOUT = 60.0
"""Seconds that the tests of one mutant may take."""
MAX_TESTS = 400
"""Tests run for one mutant. The most specific ones, which execute the least code, come first."""

Outcome = Literal["killed", "survived", "timed out", "not covered"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: `old`, unique in the file, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    used_at: str | None = None
    """Text that stands once in the file, where what changes is used: for a statement that is built at import."""

    def line(self, root: Path) -> int:
        """Return the first line that changes; raise ValueError unless `old` stands exactly once in the file."""
        same = 0
        while self.old[same : same + 1] == self.new[same : same + 1] and same < len(self.old):
            same += 1
        return self._line_of(root, self.old, same)

    def executed_line(self, root: Path) -> int:
        """Return the line whose execution shows that a test uses what changes."""
        return self.line(root) if self.used_at is None else self._line_of(root, self.used_at)

    def _line_of(self, root: Path, part: str, offset: int = 0) -> int:
        text = (root / self.file).read_text()
        if text.count(part) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(part)} places like {part!r}")
        return text[: text.index(part) + offset].count("\n") + 1


class Coverage:
    """Which tests execute a line, from a coverage file with contexts."""

    def __init__(self, file: Path, root: Path) -> None:
        self._data = coverage.CoverageData(str(file))
        self._data.read()
        self._root = root
        self._sizes: dict[str, int] | None = None

    def tests(self, file: str, line: int) -> list[str]:
        """Return the ids of the tests that execute the line or the statement around it.

        The most specific test of each test file comes first, then the second of each: a few tests of every kind run
        before the many of one.
        """
        by_line = self._data.contexts_by_lineno(str(self._root / file))
        found = {
            context.rpartition("|")[0]
            for executed in executed_lines((self._root / file).read_text(), line)
            for context in by_line.get(executed, ())
            if context.endswith("|run")
        }
        ranks: dict[str, int] = {}
        order: list[tuple[int, int, str]] = []
        for size, test in sorted((self._size(test), test) for test in found):
            file_of_test = test.partition("::")[0]
            ranks[file_of_test] = ranks.get(file_of_test, -1) + 1
            order.append((ranks[file_of_test], size, test))
        return [test for _, _, test in sorted(order)]

    def _size(self, test: str) -> int:
        if self._sizes is None:
            self._sizes = {}
            for file in self._data.measured_files():
                for contexts in self._data.contexts_by_lineno(file).values():
                    for context in contexts:
                        name = context.rpartition("|")[0]
                        self._sizes[name] = self._sizes.get(name, 0) + 1
        return self._sizes.get(test, 0)


def executed_lines(source: str, line: int) -> set[int]:
    """Return the lines whose execution enters a line: of its statement, or the uses of the constant it belongs to."""
    tree = ast.parse(source)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.lineno <= line <= (
            statement.end_lineno or 0
        ):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            uses = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in names and n.lineno > line}
            return {inner for use in uses for inner in executed_lines(source, use)}
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    innermost = max(statements, key=lambda n: n.lineno, default=None)
    return {line} if innermost is None else set(range(innermost.lineno, line + 1))


@contextmanager
def applied(mutant: Mutant, root: Path) -> Iterator[None]:
    """Change the file for the time of the block."""
    path = root / mutant.file
    before = path.read_text()
    path.write_text(before.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        path.write_text(before)


def run(mutant: Mutant, covering: list[str], root: Path) -> tuple[Outcome, str]:
    """Return whether a test fails with the mutant, and which."""
    if not covering:
        return "not covered", ""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ids, applied(mutant, root):
        ids.write("\n".join(covering[:MAX_TESTS]))
        ids.flush()
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:xdist", f"@{ids.name}"]
        try:
            done = subprocess.run(
                command, cwd=root, capture_output=True, text=True, timeout=MUTANT_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return "timed out", ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode == 1:
        return "killed", failed[0].split(" - ")[0] if failed else ""
    return ("survived", "") if done.returncode == 0 else ("killed", f"pytest ended with {done.returncode}")


def main() -> int:
    """Run the mutants; 0 if every one of them was killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Check that the tests notice mutants.")
    parser.add_argument("--coverage", type=Path, default=Path(".coverage"), help="coverage file with contexts")
    parser.add_argument("--list", type=Path, default=Path(__file__).with_name("mutants.toml"), help="the mutants")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="checkout to change and test")
    parser.add_argument("--only", help="only mutants with this in their name")
    options = parser.parse_args()
    mutants = [Mutant(**entry) for entry in tomllib.loads(options.list.read_text())["mutant"]]
    known = Coverage(options.coverage, options.root.resolve())
    killed = 0
    chosen = [mutant for mutant in mutants if options.only is None or options.only in mutant.name]
    for mutant in chosen:
        start, line = monotonic(), mutant.line(options.root)
        tests = known.tests(mutant.file, mutant.executed_line(options.root))
        outcome, by = run(mutant, tests, options.root)
        killed += outcome == "killed"
        print(
            f"{outcome:11} {mutant.name:40} {mutant.file}:{line} {len(tests)} tests {monotonic() - start:.0f}s {by}",
            flush=True,
        )
    print(f"{killed} of {len(chosen)} killed")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
