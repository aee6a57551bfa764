"""`python -m tests.faults.suite`: try the faults and print the table of their results."""

import argparse
import random
import sys
import time
from collections.abc import Iterator

from tests.faults.suite.runner import Outcome, attempt, rest
from tests.faults.suite.stack import running
from tests.faults.suite.table import complaints, line, table
from tests.faults.suite.trial import Fault, catalogue
from tests.harness.random_seed import USUAL


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.suite", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="faults whose name has this in it; may be repeated"
    )
    parser.add_argument("--times", type=int, default=3, metavar="N", help="tries of each fault (default: 3)")
    parser.add_argument("--seed", type=int, default=USUAL, help=f"of everything random (default: {USUAL})")
    parser.add_argument("--minutes", type=float, help="go on for so long, in random order, instead of N times")
    parser.add_argument("--without-redis", action="store_true", help="with Redis off for good")
    parser.add_argument("--quick", action="store_true", help="skip stored time instead of waiting for it")
    parser.add_argument("--list", action="store_true", help="only name the faults")
    return parser.parse_args()


def schedule(given: argparse.Namespace, faults: list[Fault]) -> Iterator[Fault]:
    """Yield the faults in the order of their tries."""
    if given.minutes is None:
        for one in faults:
            yield from [one] * given.times
        return
    chance, end = random.Random(given.seed), time.monotonic() + given.minutes * 60
    while time.monotonic() < end:
        yield from chance.sample(faults, len(faults))


def main() -> int:
    """Run what the command line names; 1 when a promise was broken."""
    given = arguments()
    faults = catalogue(redis=not given.without_redis, only=given.only or ())
    if given.list or not faults:
        print("\n".join(one.name for one in faults) or "no fault has that in its name")  # noqa: T201
        return 0 if faults else 2
    outcomes: dict[str, list[Outcome]] = {one.name: [] for one in faults}
    print(f"seed {given.seed}", flush=True)  # noqa: T201
    with running(redis=not given.without_redis, quick=given.quick) as stack:
        rest(stack)
        for number, one in enumerate(schedule(given, faults)):
            began = time.monotonic()
            outcome = attempt(stack, one, given.seed + number)
            outcomes[one.name].append(outcome)
            took = "not recovered" if outcome.seconds is None else f"right after {outcome.seconds:.1f} s"
            print(f"{one.name}: {took} ({time.monotonic() - began:.1f} s)", flush=True)  # noqa: T201
            for complaint in complaints(outcome):
                print(f"    {complaint}", flush=True)  # noqa: T201
    print("\n" + table([line(tried) for tried in outcomes.values() if tried]))  # noqa: T201
    return 0 if all(outcome.recovered for tried in outcomes.values() for outcome in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
