"""From a push to an unfrozen branch's pull request to the `success` on its new head, at 50 pushes a second.

A person waits for this. Aim: p99 at most 5 s, GitHub at 50 ms a call, one worker.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import requests

from tools.bench.stack import MAINTAINER, Stack, Writes, running, scaled

PER_SECOND = 50
SECONDS = scaled(20)
LATENCY_MS = 50


def main() -> None:
    """Measure and print."""
    with running(PER_SECOND * SECONDS, latency_ms=LATENCY_MS) as stack:
        heads = stack.heads().values()
        pushed, writes = push_all(stack, [(head["repository"], head["number"]) for head in heads]), Writes(stack)
        writes.wait("success", min(pushed.values()), pushed)
        written = writes.first("success", min(pushed.values()), pushed)
    waits = sorted(written[sha] - at for sha, at in pushed.items())
    print(f"Push to success, {PER_SECOND} pushes a second for {SECONDS} s, {LATENCY_MS} ms a call")
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"  {len(waits)} heads: p50 {p50:.2f} s   p99 {p99:.2f} s (aim 5)   worst {waits[-1]:.2f} s")


def push_all(stack: Stack, branches: list[tuple[str, int]]) -> dict[str, float]:
    """Push to each pull request once, at an even pace, and return when each push was accepted."""
    start_time = time.monotonic()

    def push(number: int) -> tuple[str, float]:
        """Push to the pull request of a branch when it is its turn; return the commit, and when it was accepted."""
        time.sleep(max(0.0, start_time + number / PER_SECOND - time.monotonic()))
        repository, pull = branches[number]
        body = {"message": f"Push {number}", "content": "bW9yZQ==", "branch": f"change-{pull}"}
        address = f"{stack.fake_github}/repos/{repository}/contents/file-{number}.txt"
        answer = requests.put(address, json=body, headers={"Authorization": f"Bearer {MAINTAINER}"}, timeout=60)
        answer.raise_for_status()
        return answer.json()["commit"]["sha"], time.time()

    with ThreadPoolExecutor(16) as pool:
        return dict(pool.map(push, range(len(branches))))
