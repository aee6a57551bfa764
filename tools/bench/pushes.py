"""From a push to an unfrozen branch's pull request to the `success` on its new head, at 50 pushes a second.

A person waits for this. Aim: p99 at most 5 s, GitHub at 50 ms a call, one worker.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Thread

from tools.bench.servers import machine
from tools.bench.stack import Stack, running, scaled, warm

PER_SECOND = 50
SECONDS = scaled(20)
LATENCY_MS = 50
MAX_WAIT = 60.0
POLL_INTERVAL = 0.1


def main() -> None:
    """Measure and print."""
    pushes = PER_SECOND * SECONDS
    with running(pushes, latency_ms=LATENCY_MS) as stack:
        heads = stack.control("GET", "/checks")["heads"]
        warm(stack, "acme/service-1")
        stack.control("GET", "/calls?reset=true")
        watcher = Watcher(stack)
        watcher.start()
        pushed = push_all(stack, [(head["repository"], head["number"]) for head in heads])
        watcher.wait_for(set(pushed))
    waits = sorted(watcher.seen.get(sha, float("inf")) - at for sha, at in pushed.items())
    print(f"Push to success, {PER_SECOND} pushes a second for {SECONDS} s, {LATENCY_MS} ms a call ({machine()})")
    print(f"  {len(pushed)} heads pushed, {sum(sha in watcher.seen for sha in pushed)} written")
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"  p50 {p50:.2f} s   p99 {p99:.2f} s (aim 5)   worst {waits[-1]:.2f} s   (seen every {POLL_INTERVAL} s)")


@dataclass(slots=True)
class Watcher:
    """Notes when each head was first seen with `success`."""

    stack: Stack
    seen: dict[str, float] = field(default_factory=dict)
    stop: Event = field(default_factory=Event)

    def start(self) -> None:
        """Look at GitHub every tenth of a second."""
        Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self.stop.wait(POLL_INTERVAL):
            for write in self.stack.control("GET", "/calls?writes=true&reset=true").get("writes", []):
                if write["conclusion"] == "success":
                    self.seen.setdefault(write["headSha"], time.monotonic())

    def wait_for(self, heads: set[str]) -> None:
        """Wait until all of the heads were seen, for a minute at most."""
        end = time.monotonic() + MAX_WAIT
        while not heads <= set(self.seen) and time.monotonic() < end:
            time.sleep(POLL_INTERVAL)
        self.stop.set()
        time.sleep(POLL_INTERVAL * 3)


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
        pushed[answer.json()["commit"]["sha"]] = time.monotonic()

    start_time = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        tasks = []
        for number in range(len(branches)):
            time.sleep(max(0.0, start_time + number / PER_SECOND - time.monotonic()))
            tasks.append(pool.submit(push, number))
        for task in tasks:
            task.result()
    return pushed
