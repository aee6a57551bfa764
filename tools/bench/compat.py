"""The compatibility API beside `GET /v1/freeze-state`: the CPU of reading one branch.

The same server answers both in alternating rounds, about the same branch and for the same key, which the classic client
sends in the query. Both are computed: what a classic client is answered shows the time, and is not remembered. Aim: at
most 1.2 times the CPU.
"""

import statistics
from contextlib import ExitStack

from tools.bench import load
from tools.bench.freeze_state import NOT_FROM_MEMORY, PATH, seed
from tools.bench.servers import machine, storage, web

ROUNDS = 7
SECONDS = 2.0
CLASSIC = "/api/compat/v1/branches/acme/web/main/?access_token={}"


def main() -> None:
    """Measure and print."""
    with storage() as stores, ExitStack() as stack:
        secret = seed(stores.database_url)
        environment = {**stores.environment, "RATE_LIMIT_ORGANIZATION": "1000000000", "LOG_LEVEL": "WARNING"}
        server = stack.enter_context(web("app.main:app", environment, PATH))
        measured_requests = {
            "freeze-state": (PATH, [f"Authorization: Bearer {secret}", NOT_FROM_MEMORY]),
            "compat": (CLASSIC.format(secret), []),
        }
        spent: dict[str, list[float]] = {name: [] for name in measured_requests}
        statuses: set[str] = set()
        for _ in range(ROUNDS):
            for name, (path, headers) in measured_requests.items():
                before = server.cpu_seconds
                measured = load.run(server.address + path, headers=headers, seconds=SECONDS)
                spent[name].append((server.cpu_seconds - before) / measured.requests * 1e6)
                statuses |= set(measured.statuses)
    cpu = {name: statistics.median(values) for name, values in spent.items()}
    print(f"GET one branch ({machine()}; 16 connections, 2 workers; statuses {sorted(statuses)})")
    for name, microseconds in cpu.items():
        print(f"  {name:13} {microseconds:5.0f} µs of CPU")
    print(f"  compat / freeze-state {cpu['compat'] / cpu['freeze-state']:.2f} (aim at most 1.2)")


if __name__ == "__main__":
    main()
