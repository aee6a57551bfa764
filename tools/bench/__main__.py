"""`python -m tools.bench [name …]`: run the measurements, all of them unless some are named."""

import argparse
import importlib

from tools.bench.servers import machine

NAMES = (
    *("freeze_state", "mcp", "webhooks", "pushes", "two_installations", "overview", "pages", "interactions"),
    *("notifications", "processes", "restarts", "scale", "stop", "exception_rules"),
)


def main() -> None:
    """Run the measurements that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(NAMES)} (default: all)")
    chosen = parser.parse_args().names or NAMES
    unknown = set(chosen) - set(NAMES)
    if unknown:
        parser.error(f"unknown measurement {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(machine())
    for name in chosen:
        importlib.import_module(f"tools.bench.{name}").main()
        print()


if __name__ == "__main__":
    main()
