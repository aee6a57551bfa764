"""Two organisations in one service with one worker: how long the small one waits because of the large one.

The large one has 1,000 branches with ten open heads each: one freeze of it is 10,000 checks to write, and the worker is
busy with it for as long as this is measured. The small one has five repositories with four heads each. Its freeze is
timed from the request to its last head blocked, and its lift to the last head free: ten times alone, then again and
again while the large fan-out runs. GitHub at 50 ms a call, without limits, so that the worker never waits.
Aim: no freeze of the small one is delayed more than 5 s, the slowest of them beside the median alone.
"""

import statistics
import time
from dataclasses import dataclass, field

from tools.bench.seeding import Account
from tools.bench.servers import machine
from tools.bench.stack import Stack, heads_of, scaled, serving, wait_for_rest, warm
from tools.bench.writes import Writes, freeze, lift

LATENCY_MS = 50
LARGE, SMALL = "globex", "acme"
LARGE_REPOSITORIES, LARGE_HEADS = scaled(1000), 10
SMALL_REPOSITORIES, SMALL_HEADS = 5, 4
ALONE = 10
"""Freezes of the small one alone."""
PAUSE = 0.5
"""Seconds between two freezes of the small one beside the large fan-out."""


@dataclass(slots=True)
class Times:
    """Seconds that the small one's freezes and lifts took."""

    blocked: list[float] = field(default_factory=list)
    free: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    accounts = [
        Account(LARGE, 4711, LARGE_REPOSITORIES, LARGE_HEADS),
        Account(SMALL, 4712, SMALL_REPOSITORIES, SMALL_HEADS, "web-{}"),
    ]
    with serving(accounts, latency_ms=LATENCY_MS) as stack:
        warm(stack, f"{SMALL}/web-1", SMALL)
        warm(stack, f"{LARGE}/service-1", LARGE)
        small, large = heads_of(stack, SMALL), heads_of(stack, LARGE)
        print(
            f"{len(small)} heads in {SMALL_REPOSITORIES} repositories beside {len(large)} in {LARGE_REPOSITORIES}, "
            f"one worker, {LATENCY_MS} ms a call ({machine()})"
        )
        alone = Times()
        for _ in range(ALONE):
            freeze_and_lift(stack, Writes(stack), small, alone)
        wait_for_rest(stack)
        beside, seconds = measure_beside(stack, small, large)
    report(alone, beside)
    print(f"  the large one's {len(large)} heads were blocked after {seconds:.0f} s")


def freeze_and_lift(stack: Stack, writes: Writes, heads: set[str], times: Times) -> None:
    """Freeze and lift the small one, and add the seconds that both took to `times`."""
    frozen, since = freeze(stack, SMALL, "A small organisation's freeze")
    times.blocked.append(writes.wait("failure", since, heads))
    since = lift(stack, SMALL, frozen)
    times.free.append(writes.wait("success", since, heads))


def measure_beside(stack: Stack, small: set[str], large: set[str]) -> tuple[Times, float]:
    """Freeze and lift the small one while the large fan-out runs; return what both took."""
    writes, times = Writes(stack), Times()
    writes.look()
    _, since = freeze(stack, LARGE, "A large organisation's freeze")
    while len(writes.first("failure", since, large)) < len(large):
        freeze_and_lift(stack, writes, small, times)
        time.sleep(PAUSE)
        writes.look()
    return times, writes.wait("failure", since, large)


def report(alone: Times, beside: Times) -> None:
    """Print both, and how much the small one was delayed."""
    for what, before, now in (("blocked", alone.blocked, beside.blocked), ("free", alone.free, beside.free)):
        median = statistics.median(before)
        print(
            f"  {what}: alone median {median:.2f} s, worst {max(before):.2f} s; beside, {len(now)} times, "
            f"median {statistics.median(now):.2f} s, worst {max(now):.2f} s: delayed {max(now) - median:.2f} s"
            + (" (aim 5)" if what == "blocked" else "")
        )
