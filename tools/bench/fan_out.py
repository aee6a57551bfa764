"""From `POST /v1/freezes` to the last head blocked: 1,000 branches, one open head each, GitHub at 50 ms a call.

Aims: the 201 within 100 ms, the last head within 10 s with one worker, at most 0.1 calls to GitHub per head.
Then the lift, the same way back; and the memory of one API process (at most 150 MB).
"""

import time
from dataclasses import dataclass
from pathlib import Path

from tools.bench.servers import machine
from tools.bench.stack import Stack, running, scaled, warm
from tools.bench.writes import until

REPOSITORIES = scaled(1000)
LATENCY_MS = 50
POLL_INTERVAL = 0.05


def main() -> None:
    """Measure and print."""
    with running(REPOSITORIES, latency_ms=LATENCY_MS) as stack:
        print(f"Fan-out over {REPOSITORIES} branches, one worker, {LATENCY_MS} ms a call ({machine()})")
        warm(stack, "acme/service-1")
        until(lambda: conclusions(stack) == {"success": REPOSITORIES}, POLL_INTERVAL)
        stack.control("GET", "/calls?reset=true")
        start_time = time.monotonic()
        answer = stack.call(
            "POST",
            "/v1/freezes",
            {"scope": {"type": "organization"}, "reason": "Measuring the fan-out", "impactAcknowledged": True},
        )
        answered = time.monotonic() - start_time
        answer.raise_for_status()
        blocked = wait_for_heads(stack, "failure", start_time)
        print(f"  201 after {answered * 1000:.0f} ms (aim 100)")
        print(f"  first 100 heads blocked after {blocked.hundredth:.1f} s, last after {blocked.last:.1f} s (aim 10)")
        print(f"  {blocked.calls / REPOSITORIES:.3f} calls to GitHub per head (aim 0.1)")
        freeze = answer.json()["id"]
        stack.control("GET", "/calls?reset=true")
        start_time = time.monotonic()
        stack.call("POST", f"/v1/freezes/{freeze}/lift", {}).raise_for_status()
        free = wait_for_heads(stack, "success", start_time)
        print(f"  lifted: last head free after {free.last:.1f} s, {free.calls / REPOSITORIES:.3f} calls per head")
        shown = stack.call("GET", f"/v1/freezes/{freeze}").json()
        print(f"  receipts: enforcedAt {shown['enforcedAt']}, releasedAt {shown['releasedAt']}, {shown['targets']}")
        print(f"  memory of an API process {memory_mb(stack.processes['api-1']):.0f} MB (aim 150)")


@dataclass(frozen=True, slots=True)
class FanOut:
    """Seconds until the hundredth head and the last one had their verdict, and the calls to GitHub until then."""

    hundredth: float
    last: float
    calls: int


def wait_for_heads(stack: Stack, wanted: str, start_time: float) -> FanOut:
    """Wait until every head shows a conclusion; return how long that took since `start_time`."""
    until(lambda: conclusions(stack).get(wanted, 0) >= min(100, REPOSITORIES), POLL_INTERVAL)
    hundredth = time.monotonic() - start_time
    until(lambda: conclusions(stack).get(wanted) == REPOSITORIES, POLL_INTERVAL)
    last = time.monotonic() - start_time
    calls: int = stack.control("GET", "/calls")["total"]
    return FanOut(hundredth, last, calls)


def conclusions(stack: Stack) -> dict[str, int]:
    """Count what GitHub shows on open heads, by conclusion."""
    counts: dict[str, int] = {}
    for head in stack.control("GET", "/checks")["heads"]:
        for check in head["checks"].values():
            counts[check["conclusion"]] = counts.get(check["conclusion"], 0) + 1
    return counts


def memory_mb(process_id: int) -> float:
    """Return the largest resident size, in MB, among a process and those that it has started."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    statuses = [Path(f"/proc/{each}/status").read_text() for each in (process_id, *children)]
    lines = (line for status in statuses for line in status.splitlines() if line.startswith("VmRSS"))
    return max(int(line.split()[1]) / 1024 for line in lines)


if __name__ == "__main__":
    main()
