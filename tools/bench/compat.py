"""The compatibility API beside `GET /v1/freeze-state`: the CPU of reading one branch.

The same server answers both in alternating rounds, about the same branch and for the same key, which the classic client
sends in the query. Both are computed: what a classic client is answered shows the time, and is not remembered. Aim: at
most 1.2 times the CPU.
"""

import statistics

from tools.bench import load
from tools.bench.freeze_state import NOT_FROM_MEMORY, PATH, seed
from tools.bench.servers import machine, storage, web

ROUNDS = 7
SECONDS = 2.0
CLASSIC = "/api/compat/v1/branches/acme/web/main/?access_token={}"


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        secret = seed(stores)
        with web("app.main:app", stores.environment, PATH) as server:
            asked = {
                "freeze-state": (server, PATH, [f"Authorization: Bearer {secret}", NOT_FROM_MEMORY]),
                "compat": (server, CLASSIC.format(secret), []),
            }
            found = load.in_turns(asked, rounds=ROUNDS, seconds=SECONDS)
    cpu = {name: statistics.median(one.cpu for one in loads) for name, loads in found.items()}
    statuses = {status for loads in found.values() for one in loads for status in one.statuses}
    print(f"GET one branch ({machine()}; 16 connections, 2 workers; statuses {sorted(statuses)})")
    for name, microseconds in cpu.items():
        print(f"  {name:13} {microseconds:5.0f} µs of CPU")
    print(f"  compat / freeze-state {cpu['compat'] / cpu['freeze-state']:.2f} (aim at most 1.2)")
