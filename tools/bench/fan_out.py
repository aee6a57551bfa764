"""From `POST /v1/freezes` to the last head blocked: 1,000 branches, one open head each, GitHub at 50 ms a call.

Aims: the 201 within 100 ms, the last head within 10 s with one worker, at most 0.1 calls to GitHub per head.
Then the lift, the same way back; and the memory of one API process (at most 150 MB).
"""

import time
from collections.abc import Callable
from pathlib import Path

from tools.bench.servers import machine
from tools.bench.stack import DEADLINE_SECONDS, Stack, running, scaled, warm

REPOSITORIES = scaled(1000)
LATENCY_MS = 50


def main() -> None:
    """Measure and print."""
    with running(REPOSITORIES, latency_ms=LATENCY_MS) as stack:
        print(f"Fan-out over {REPOSITORIES} branches, one worker, {LATENCY_MS} ms a call ({machine()})")
        warm(stack, "acme/service-1")
        until(lambda: conclusions(stack) == {"success": REPOSITORIES})
        stack.control("GET", "/calls?reset=true")
        start_time = time.monotonic()
        answer = stack.call(
            "POST",
            "/v1/freezes",
            {"scope": {"type": "organization"}, "reason": "Measuring the fan-out", "impactAcknowledged": True},
        )
        answered = time.monotonic() - start_time
        answer.raise_for_status()
        first = report(stack, "failure", start_time)
        print(f"  201 after {answered * 1000:.0f} ms (aim 100)")
        print(f"  first 100 heads blocked after {first[0]:.1f} s, last after {first[1]:.1f} s (aim 10)")
        print(f"  {first[2] / REPOSITORIES:.3f} calls to GitHub per head (aim 0.1)")
        freeze = answer.json()["id"]
        stack.control("GET", "/calls?reset=true")
        start_time = time.monotonic()
        stack.call("POST", f"/v1/freezes/{freeze}/lift", {}).raise_for_status()
        second = report(stack, "success", start_time)
        print(f"  lifted: last head free after {second[1]:.1f} s, {second[2] / REPOSITORIES:.3f} calls per head")
        shown = stack.call("GET", f"/v1/freezes/{freeze}").json()
        print(f"  receipts: enforcedAt {shown['enforcedAt']}, releasedAt {shown['releasedAt']}, {shown['targets']}")
        print(f"  memory of an API process {memory_of_api():.0f} MB (aim 150)")


def report(stack: Stack, wanted: str, start_time: float) -> tuple[float, float, int]:
    """Wait until every head shows `wanted`; return seconds to the 100th and to the last, and calls made."""
    until(lambda: conclusions(stack).get(wanted, 0) >= REPOSITORIES // 10)
    hundredth = time.monotonic() - start_time
    until(lambda: conclusions(stack).get(wanted) == REPOSITORIES)
    last = time.monotonic() - start_time
    calls: int = stack.control("GET", "/calls")["total"]
    return hundredth, last, calls


def conclusions(stack: Stack) -> dict[str, int]:
    """Count what GitHub shows on open heads, by conclusion."""
    counts: dict[str, int] = {}
    for head in stack.control("GET", "/checks")["heads"]:
        for check in head["checks"].values():
            counts[check["conclusion"]] = counts.get(check["conclusion"], 0) + 1
    return counts


def until(reached: Callable[[], bool]) -> None:
    """Look every 50 ms until something is reached."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("the fan-out did not come to its end")
        time.sleep(0.05)


def memory_of_api() -> float:
    """Return the largest resident size, in MB, among the processes that serve the API."""
    sizes = [0.0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if b"app.main:app" not in status.with_name("cmdline").read_bytes():
                continue
            text = status.read_text()
        except OSError:
            continue
        sizes += [int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")]
    return max(sizes)


if __name__ == "__main__":
    main()
