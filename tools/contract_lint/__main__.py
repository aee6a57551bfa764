"""Command line of the contract's linter."""

import sys
from pathlib import Path

from schemas.contract import CONTRACT_PATH
from tools.contract_lint import lint


def main(arguments: list[str]) -> int:
    """Print the faults of the contract named, or of ours; return 1 when there are any."""
    path = Path(arguments[0]) if arguments else CONTRACT_PATH
    faults = lint(path.read_bytes())
    for fault in faults:
        print(f"{path.name}:{fault.line}: {fault.where}: {fault.message}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
