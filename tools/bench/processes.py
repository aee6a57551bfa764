"""The same work with 2 API hosts and 3 workers, two of which are killed, beside one of each.

Freezes of random repositories are started and lifted at a fixed pace. Halfway, two
processes get SIGKILL. Aims: every head shows the right verdict at the end; no check is written twice in a row on a
head, except where a killed process left open whether it had been written; at most 1.15 times the CPU.
"""

import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import requests

from tools.bench.servers import cpu_seconds, family, machine
from tools.bench.stack import LOGIN, Stack, conclusions, running, scaled, wait_for_rest, warm

REPOSITORIES, HEADS = 60, 3
ROUNDS = scaled(120)
FREEZE_INTERVAL = 0.25
REPOSITORIES_OF_FREEZE = 10
LATENCY_MS = 20
SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class Result:
    """What one run found."""

    cpu: float
    """Seconds of all processes of the service, of killed ones until they were killed."""
    writes: int
    repeated: int
    """Checks that a head got twice in a row."""
    wrong: int
    """Heads that show something else than `success` once all is lifted."""


def main() -> None:
    """Measure and print."""
    print(
        f"{ROUNDS} freezes and lifts of {REPOSITORIES_OF_FREEZE} of {REPOSITORIES} repositories with {HEADS} heads "
        f"each, one every {FREEZE_INTERVAL} s, {LATENCY_MS} ms a call ({machine()})"
    )
    single = measure((1, 1), ())
    show("1/1", single, single)
    for killed in (("worker-2", "worker-3"), ("api-2", "worker-1")):
        show(f"2/3, {' and '.join(killed)} killed", measure((2, 3), killed), single)
    print("  (aims: nothing wrong, CPU 1.15)")


def show(name: str, found: Result, single: Result) -> None:
    """Print one run beside that with one process of each kind."""
    print(
        f"  {name}: CPU {found.cpu:.1f} s ({found.cpu / single.cpu:.2f}), {found.writes} checks written, "
        f"{found.repeated} of them again, {found.wrong} heads wrong"
    )


def measure(counts: tuple[int, int], killed: Sequence[str]) -> Result:
    """Do the work once."""
    alone = {"WEB_CONCURRENCY": "1"}
    with running(REPOSITORIES, HEADS, latency_ms=LATENCY_MS, environment=alone, counts=counts) as stack:
        for host in stack.hosts:
            warm(replace(stack, api=host), f"{LOGIN}/service-1")
        stack.control("GET", "/calls?reset=true")
        before = {name: cpu_seconds(process_id) for name, process_id in stack.processes.items()}
        after = work(stack, killed)
        wait_for_rest(stack)
        alive = {name: each for name, each in stack.processes.items() if name not in killed}
        after |= {name: cpu_seconds(process_id) for name, process_id in alive.items()}
        writes = stack.control("GET", "/writes")["writes"]
        shown = conclusions(stack)
    wrong = sum(count for conclusion, count in shown.items() if conclusion != "success")
    cpu = sum(after[name] - before[name] for name in before)
    return Result(cpu, len(writes), repeated(writes), wrong)


def work(stack: Stack, killed: Sequence[str]) -> dict[str, float]:
    """Start and lift freezes; kill processes halfway, and return the CPU seconds that they had used."""
    chance, used = random.Random(SEED), {}
    names = [f"{LOGIN}/service-{number}" for number in range(1, REPOSITORIES + 1)]
    running: list[str] = []
    for number in range(ROUNDS):
        due = time.monotonic() + FREEZE_INTERVAL
        if number == ROUNDS // 2:
            for name in killed:
                used[name] = cpu_seconds(stack.processes[name])
                kill(stack.processes[name])
        if running and chance.random() < 0.5:
            ask(stack, f"/v1/freezes/{running.pop(0)}/lift", {}, f"lift-{number}")
        else:
            scope = {"type": "repositories", "repositories": chance.sample(names, REPOSITORIES_OF_FREEZE)}
            body = {"scope": scope, "reason": f"Measuring, {number}", "impactAcknowledged": True}
            running.append(ask(stack, "/v1/freezes", body, f"freeze-{number}")["id"])
        time.sleep(max(0.0, due - time.monotonic()))
    for number, freeze in enumerate(running):
        ask(stack, f"/v1/freezes/{freeze}/lift", {}, f"last-lift-{number}")
    return used


def ask(stack: Stack, path: str, body: Any, key: str) -> Any:
    """Send a request under a key to one host after the other until one answers it."""
    headers = {"Authorization": f"Bearer {stack.keys[LOGIN]}", "Idempotency-Key": key}
    for address in [*stack.hosts, *stack.hosts]:
        try:
            answer = requests.post(address + path, json=body, headers=headers, timeout=30)
        except requests.ConnectionError:
            continue
        answer.raise_for_status()
        return answer.json()
    raise RuntimeError("no host of the API answers")


def kill(process_id: int) -> None:
    """Kill a process and those that it has started."""
    for each in family(process_id):
        os.kill(each, signal.SIGKILL)


def repeated(writes: Sequence[dict[str, Any]]) -> int:
    """Count the checks that a head got although it had the same one, with the same text, already."""
    shown: dict[str, tuple[str, str]] = {}
    again = 0
    for write in writes:
        check = (write["conclusion"], write["summary"])
        again += shown.get(write["headSha"]) == check
        shown[write["headSha"]] = check
    return again
