"""Command line: `python -m tools.scaffold POST /v1/freezes/{freezeId}/comment`."""

import argparse
import sys
from collections.abc import Sequence

from tools.contract import lint
from tools.scaffold import ROOT, ScaffoldError, scaffold


def main(arguments: Sequence[str] | None = None) -> int:
    """Scaffold the operation of the command line; return 1 with a message if that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m tools.scaffold", description="Begin an operation, or its code.")
    parser.add_argument("method", help="GET, POST, PUT, PATCH or DELETE")
    parser.add_argument("path", help="such as /v1/freezes/{freezeId}/comment")
    parser.add_argument("--id", help="the operationId, instead of one derived from method and path")
    parser.add_argument("--tag", help="the tag, instead of that of the nearest path")
    parser.add_argument("--service", help="the package of services/, instead of the one that the tag's handlers use")
    options = parser.parse_args(arguments)
    try:
        files = scaffold(options.method, options.path, name=options.id, tag=options.tag, service=options.service)
    except ScaffoldError as error:
        print(error, file=sys.stderr)
        return 1
    written = [str(path.relative_to(ROOT)) for path in files]
    for name in written:
        print(f"wrote {name}")
    for problem in lint(ROOT):
        print(f"to do: {problem.file}:{problem.line}: {problem.where}: {problem.message}")
    for name in written:
        if name.startswith("services/"):
            print(f"to do: {name}: the function raises NotImplementedError")
        if name.startswith("tests/"):
            print(f"to do: {name}: test what it does; .venv/bin/python -m pytest -n 0 {name}")
    print("then: make contract; make lint")
    return 0


if __name__ == "__main__":
    sys.exit(main())
