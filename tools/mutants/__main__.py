"""Check by mutation that the tests notice when a rule that matters is broken.

`python -m tools.mutants` applies each mutant of `mutants.toml` in turn, runs the tests that hold the rule, stops at the
first failure, and restores the file. A mutant that none of these tests notices has survived. `--list` only prints the
mutants.

The mutants are chosen by meaning (a bound, a missing lease check, a swallowed condition), not generated. This is no
part of `make check`: run it before and after a large move of code, and compare.
"""

import argparse
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

MUTANTS = Path(__file__).with_name("mutants.toml")
CPU_LIMIT = 60
"""Seconds of CPU time that the tests of one mutant may take; other work on the machine does not count."""
TIMEOUT = 600.0
"""Seconds after which tests that wait and compute nothing are ended."""

Outcome = Literal["killed", "survived", "timed out"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: `old`, unique in the file, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """What pytest runs: the tests that hold the rule, the cheapest first."""

    def place(self, root: Path) -> str:
        """Return file and line of the change; raise ValueError unless `old` stands exactly once in the file."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(self.old)} places like {self.old!r}")
        return f"{self.file}:{text[: text.index(self.old)].count(chr(10)) + 1}"


def read_mutants(file: Path = MUTANTS) -> list[Mutant]:
    """Return the mutants of a file."""
    entries = tomllib.loads(file.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


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


def run_tests(tests: Sequence[str], root: Path) -> tuple[Outcome, str]:
    """Return whether a test fails, and which. Raise ValueError if pytest cannot run them."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return "timed out", ""
    if process.returncode == 0:
        return "survived", ""
    if process.returncode < 0:
        return "timed out", ""
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if process.returncode != 1 or not failed:
        raise ValueError(f"pytest ended with {process.returncode}:\n{output}")
    return "killed", failed[0].split(" - ")[0]


def main() -> int:
    """Run the mutants, or list them; return 0 if every one was killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Check that the tests notice mutants.")
    parser.add_argument("--file", type=Path, default=MUTANTS, help="the mutants (default: those of this package)")
    parser.add_argument("--list", action="store_true", help="only print the mutants and their places")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="checkout to change and test")
    parser.add_argument("--only", default="", help="only mutants with this in their name")
    options = parser.parse_args()
    chosen = [mutant for mutant in read_mutants(options.file) if options.only in mutant.name]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:40} {mutant.place(options.root)}")
        return 0
    killed = 0
    for mutant in chosen:
        start, place = monotonic(), mutant.place(options.root)
        with applied(mutant, options.root):
            outcome, by = run_tests(mutant.tests, options.root)
        killed += outcome == "killed"
        print(f"{outcome:9} {mutant.name:40} {place} {monotonic() - start:.0f}s {by}", flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
