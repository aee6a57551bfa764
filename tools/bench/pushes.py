"""From a push to an unfrozen branch's pull request to the `success` on its new head, at 50 pushes a second.

A person waits for this. Aim: p99 at most 5 s, GitHub at 50 ms a call, one worker.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from tools.bench.servers import machine
from tools.bench.stack import Stack, running, scaled, warm
from tools.bench.writes import Writes

PER_SECOND = 50
SECONDS = scaled(20)
LATENCY_MS = 50


def main() -> None:
    """Measure and print."""
    with running(PER_SECOND * SECONDS, latency_ms=LATENCY_MS) as stack:
        heads = stack.control("GET", "/checks")["heads"]
        warm(stack, "acme/service-1")
        stack.control("GET", "/calls?reset=true")
        pushed, writes = push_all(stack, [(head["repository"], head["number"]) for head in heads]), Writes(stack)
        writes.wait("success", min(pushed.values()), pushed)
        written = writes.first("success", min(pushed.values()), pushed)
    waits = sorted(written[sha] - at for sha, at in pushed.items())
    print(f"Push to success, {PER_SECOND} pushes a second for {SECONDS} s, {LATENCY_MS} ms a call ({machine()})")
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"  {len(waits)} heads: p50 {p50:.2f} s   p99 {p99:.2f} s (aim 5)   worst {waits[-1]:.2f} s")


def push_all(stack: Stack, branches: list[tuple[str, int]]) -> dict[str, float]:
    """Push to each pull request once, at an even pace, and return when each push was accepted."""
    pushed: dict[str, float] = {}

    def push(number: int) -> None:
        """Push to the pull request of a branch, and keep when the push was accepted."""
        repository, pull = branches[number]
        answer = stack.as_person(
            "PUT",
            f"/repos/{repository}/contents/file-{number}.txt",
            {"message": f"Push {number}", "content": "bW9yZQ==", "branch": f"change-{pull}"},
        )
        answer.raise_for_status()
        pushed[answer.json()["commit"]["sha"]] = time.time()

    start_time = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        tasks = []
        for number in range(len(branches)):
            time.sleep(max(0.0, start_time + number / PER_SECOND - time.monotonic()))
            tasks.append(pool.submit(push, number))
        for task in tasks:
            task.result()
    return pushed
