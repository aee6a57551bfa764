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
from contextlib import suppress
from dataclasses import replace
from typing import Any

import requests

from tools.bench.servers import cpu_seconds, family
from tools.bench.stack import LOGIN, Stack, running, scaled, wait_for_rest

REPOSITORIES, HEADS = 60, 3
ROUNDS = scaled(120)
FREEZE_INTERVAL = 0.25
REPOSITORIES_OF_FREEZE = 10
LATENCY_MS = 20
SEED = 20_261_123


def main() -> None:
    """Measure and print."""
    print(
        f"{ROUNDS} freezes and lifts of {REPOSITORIES_OF_FREEZE} of {REPOSITORIES} repositories with {HEADS} heads "
        f"each, one every {FREEZE_INTERVAL} s, {LATENCY_MS} ms a call (aims: nothing wrong, CPU 1.15)"
    )
    single = 0.0
    for counts, killed in (((1, 1), ()), ((2, 3), ("worker-2", "worker-3")), ((2, 3), ("api-2", "worker-1"))):
        cpu, found = measure(counts, killed)
        single = single or cpu
        print(f"  {counts}, killed: {killed}: CPU {cpu:.1f} s ({cpu / single:.2f}), {found}")


def measure(counts: tuple[int, int], killed: Sequence[str]) -> tuple[float, str]:
    """Do the work once; return CPU seconds, of killed processes until they were killed, and what heads show at last."""
    alone = {"WEB_CONCURRENCY": "1"}
    with running(REPOSITORIES, HEADS, latency_ms=LATENCY_MS, environment=alone, counts=counts) as stack:
        before = stack.cpu_seconds()
        used = work(stack, killed)
        wait_for_rest(stack)
        alive = {name: each for name, each in stack.processes.items() if name not in killed}
        cpu = used + replace(stack, processes=alive).cpu_seconds() - before
        writes = stack.control("GET", "/writes")["writes"]
        checks = [check for head in stack.heads().values() for check in head["checks"].values()]
    wrong = sum(check["conclusion"] != "success" for check in checks)
    return cpu, f"{len(writes)} checks written, {repeated(writes)} of them again, {wrong} heads wrong"


def work(stack: Stack, killed: Sequence[str]) -> float:
    """Start and lift freezes; kill processes halfway, and return the CPU seconds that they had used."""
    chance, used = random.Random(SEED), 0.0
    names = [f"{LOGIN}/service-{number}" for number in range(1, REPOSITORIES + 1)]
    running: list[str] = []
    for number in range(ROUNDS):
        due = time.monotonic() + FREEZE_INTERVAL
        if number == ROUNDS // 2:
            for process_id in (stack.processes[name] for name in killed):
                used += cpu_seconds(process_id)
                for each in family(process_id):
                    os.kill(each, signal.SIGKILL)
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
    for address in [*stack.hosts, *stack.hosts]:
        with suppress(requests.ConnectionError):
            answer = replace(stack, api=address).call("POST", path, body, **{"Idempotency-Key": key})
            answer.raise_for_status()
            return answer.json()
    raise RuntimeError("no host of the API answers")


def repeated(writes: Sequence[dict[str, Any]]) -> int:
    """Count the checks that a head got although it had the same one, with the same text, already."""
    shown: dict[str, tuple[str, str]] = {}
    again = 0
    for write in writes:
        check = (write["conclusion"], write["summary"])
        again += shown.get(write["headSha"]) == check
        shown[write["headSha"]] = check
    return again
