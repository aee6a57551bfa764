"""Two organisations in one service with one worker: how long the small one waits because of the large one.

The large one has 1,000 branches with ten open heads each: one freeze of it is 10,000 checks to write. The small one has
five repositories with four heads each. Its freeze is timed from the request to its last head blocked, and its lift to
the last head free: ten times alone, then again and again while the large fan-out runs. GitHub at 50 ms a call, without
limits, so that the worker never waits.
Aim: no freeze of the small one is delayed more than 5 s, the slowest of them beside the median alone.
"""

import statistics
import time
from collections.abc import Collection

from tools.bench.seeding import Account
from tools.bench.stack import Stack, Writes, scaled, serving, wait_for_rest

Times = list[tuple[float, float]]
"""Seconds that the small one's freezes and their lifts took."""
LATENCY_MS = 50
LARGE, SMALL = "globex", "acme"
LARGE_REPOSITORIES, LARGE_HEADS = scaled(1000), 10
SMALL_REPOSITORIES, SMALL_HEADS = 5, 4
ALONE = 10
"""Freezes of the small one alone."""
PAUSE = 0.5
"""Seconds between two freezes of the small one beside the large fan-out."""


def main() -> None:
    """Measure and print."""
    accounts = [
        Account(LARGE, 4711, LARGE_REPOSITORIES, LARGE_HEADS),
        Account(SMALL, 4712, SMALL_REPOSITORIES, SMALL_HEADS, "web-{}"),
    ]
    with serving(accounts, latency_ms=LATENCY_MS) as stack:
        small, large = stack.heads(SMALL), stack.heads(LARGE)
        print(
            f"{len(small)} heads in {SMALL_REPOSITORIES} repositories beside {len(large)} in {LARGE_REPOSITORIES}, "
            f"one worker, {LATENCY_MS} ms a call"
        )
        writes = Writes(stack)
        alone = [stack.freeze_and_lift(writes, small, SMALL) for _ in range(ALONE)]
        wait_for_rest(stack)
        beside, seconds = measure_beside(stack, small, large)
    for what, before, now in zip(("blocked", "free"), zip(*alone, strict=True), zip(*beside, strict=True), strict=True):
        median = statistics.median(before)
        print(
            f"  {what}: alone median {median:.2f} s, worst {max(before):.2f} s; beside, {len(now)} times, median "
            f"{statistics.median(now):.2f} s, worst {max(now):.2f} s: delayed {max(now) - median:.2f} s"
        )
    print(f"  the large one's {len(large)} heads were blocked after {seconds:.0f} s (aim: 5 s of delay for a freeze)")


def measure_beside(stack: Stack, small: Collection[str], large: Collection[str]) -> tuple[Times, float]:
    """Freeze and lift the small one while the large fan-out runs; return what both took."""
    writes, times = Writes(stack), Times()
    writes.look()
    _, since = stack.freeze(login=LARGE)
    while len(writes.first("failure", since, large)) < len(large):
        times.append(stack.freeze_and_lift(writes, small, SMALL))
        time.sleep(PAUSE)
        writes.look()
    return times, writes.wait("failure", since, large)
