"""From the grant of an exception to the `success` at the code host: one after the other, code host at 50 ms a call.

Somebody waits for this with a fix at hand. Each grant is sent when the one before it has arrived; seconds count from
sending it until the code host has taken the check. One worker.
"""

import time
from typing import Any

from tools.bench.fan_out import conclusions, until
from tools.bench.servers import machine
from tools.bench.stack import DEADLINE_SECONDS, Stack, running, scaled, wait_for_rest, warm

GRANTS = scaled(100)
LATENCY_MS = 50
LOOK_EVERY = 0.05


def main() -> None:
    """Measure and print."""
    with running(GRANTS, latency_ms=LATENCY_MS) as stack:
        heads = stack.control("GET", "/checks")["heads"]
        warm(stack, "acme/service-1")
        freeze(stack)
        stack.control("GET", "/calls?writes=true&reset=true")
        calls, waits = 0, []
        for head in heads:
            seconds, made = grant(stack, head)
            waits.append(seconds)
            calls += made
    waits.sort()
    print(f"Grant to success, {len(waits)} one after the other, {LATENCY_MS} ms a call ({machine()})")
    print(
        f"  median {waits[len(waits) // 2]:.2f} s   p99 {waits[int(len(waits) * 0.99)]:.2f} s   worst {waits[-1]:.2f} s"
    )
    print(f"  {calls / len(waits):.1f} calls to the code host per grant")


def freeze(stack: Stack) -> None:
    """Freeze everything, and wait until that is so at the code host."""
    body = {"scope": {"type": "organization"}, "reason": "Measuring exceptions", "impactAcknowledged": True}
    stack.call("POST", "/v1/freezes", body).raise_for_status()
    until(lambda: conclusions(stack) == {"failure": GRANTS})
    wait_for_rest(stack)


def grant(stack: Stack, head: dict[str, Any]) -> tuple[float, int]:
    """Grant one pull request an exception; returns seconds until its head was allowed, and calls made for it."""
    body = {"pullRequest": f"{head['repository']}#{head['number']}", "reason": "Measuring exceptions"}
    begun, calls = time.time(), 0
    stack.call("POST", "/v1/exceptions", body).raise_for_status()
    while time.time() < begun + DEADLINE_SECONDS:
        seen = stack.control("GET", "/calls?writes=true&reset=true")
        calls += seen["total"]
        for write in seen.get("writes", ()):
            if write["headSha"] == head["headSha"] and write["conclusion"] == "success":
                return write["heardAt"] - begun, calls
        time.sleep(LOOK_EVERY)
    raise TimeoutError("the grant did not arrive")


if __name__ == "__main__":
    main()
