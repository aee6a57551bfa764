"""Command line: `python -m tools.contract complete|lint [file]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas.contract import CONTRACT_PATH, ContractError
from tools.contract import Document, Problem, complete, find_blocking_problems, lint


def main(arguments: Sequence[str] | None = None) -> int:
    """Complete or check a contract; return 1 if it has problems."""
    parser = argparse.ArgumentParser(prog="python -m tools.contract", description="Complete or check the contract.")
    parser.add_argument("command", choices=["complete", "lint"])
    parser.add_argument("file", nargs="?", type=Path, default=CONTRACT_PATH)
    options = parser.parse_args(arguments)
    source = options.file.read_bytes()
    try:
        problems = _complete(options.file, source) if options.command == "complete" else lint(source)
    except ContractError as error:
        print(f"{options.file.name}: {error}")
        return 1
    for problem in problems:
        print(f"{options.file.name}:{problem.line}: {problem.where}: {problem.message}")
    return int(bool(problems))


def _complete(path: Path, source: bytes) -> list[Problem]:
    """Complete a file in place; return its remaining problems, or those that prevent completion."""
    if problems := find_blocking_problems(source):
        return problems
    completed = complete(Document.parse(source))
    if completed != source:
        path.write_bytes(completed)
    return lint(completed)


if __name__ == "__main__":
    sys.exit(main())
