"""Command line: `python -m tools.contract complete|lint [folder]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas.contract import CONTRACT_PATH
from tools.contract import OUTPUT, Problem, build, lint, read_sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check a contract; return 1 if it has problems."""
    parser = argparse.ArgumentParser(prog="python -m tools.contract", description="Write or check the contract.")
    parser.add_argument("command", choices=["complete", "lint"])
    parser.add_argument("root", nargs="?", type=Path, default=CONTRACT_PATH.parent)
    options = parser.parse_args(arguments)
    problems = lint(options.root) if options.command == "lint" else _write(options.root)
    for problem in problems:
        print(f"{problem.file}:{problem.line}: {problem.where}: {problem.message}")
    return int(bool(problems))


def _write(root: Path) -> list[Problem]:
    """Write `openapi.yaml`, unless something keeps it from being made; return the problems of the sources."""
    built = build(read_sources(root))
    if not built.blocking:
        (root / OUTPUT).write_bytes(built.text)
    return built.problems


if __name__ == "__main__":
    sys.exit(main())
