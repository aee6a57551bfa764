"""`GET /v1/freeze-state`, with credential and limits: ours beside a bare Starlette route and a FastAPI one.

The two routes execute the same SQL, credential and state, and the same Redis command as ours without memory, and answer
byte-equal bodies; ours reads the version of freezes with the credential, and answers from memory. All run under
gunicorn with two workers, from 16 connections, in alternating rounds. Aims: 1.5 of Starlette's throughput, 1.8 of
FastAPI's, also for clients that accept compressed answers, p99 at most 3 times p50, and a 304 0.6 of the CPU of a 200
that is computed. The CPU per request of the servers' processes says the same on a machine that does other work as well.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import requests

from tests import factories
from tools.bench import load
from tools.bench.servers import Storage, machine, storage, web

PATH = "/v1/freeze-state?repo=acme/web&branch=main"
NOT_FROM_MEMORY = "Content-Type: text/plain"
"""A request that names the type of a body is answered by a query."""
ACCEPTS_BROTLI = "Accept-Encoding: br"
AIMS = (
    ("ours", "starlette", "aim: 1.5 of the requests"),
    ("ours", "fastapi", "aim: 1.8 of the requests"),
    ("ours, br", "starlette", "aim: 1.5 of the requests"),
    ("ours, br", "fastapi", "aim: 1.8 of the requests"),
    ("ours, 304", "computed", "aim: 0.6 of the CPU"),
    ("ours, 304", "ours", "no aim"),
    ("computed", "starlette", "no aim"),
)
ROUNDS = 5
SECONDS = 3.0


def seed(stores: Storage, repositories: int = 200) -> str:
    """Fill the database as a busy organisation would, and return a key's secret."""
    with stores.rows() as session:
        acme = factories.organization(session, "Acme")
        branches = [factories.watched(session, acme, f"acme/service-{number}") for number in range(repositories)]
        branches.append(factories.watched(session, acme, "acme/web"))
        for _ in range(20):  # a history of ended freezes
            ended = factories.now()
            freeze = factories.freeze(session, acme, [], ended_at=ended, end_reason="lifted")
            for branch in branches:
                factories.target(session, freeze, branch, operation="release", state="released")
        factories.freeze(session, acme, branches)
        return factories.api_key(session, acme, "freeze:read").secret


def main() -> None:
    """Measure and print."""
    with storage() as stores, ExitStack() as stack:
        secret = seed(stores)
        authorization = f"Authorization: Bearer {secret}"
        applications = {
            "starlette": "tools.bench.baselines:starlette",
            "fastapi": "tools.bench.baselines:fast",
            "ours": "app.main:app",
        }
        servers = {name: stack.enter_context(web(app, stores.environment, PATH)) for name, app in applications.items()}
        headers = {"Authorization": f"Bearer {secret}"}
        bodies = [requests.get(server.address + PATH, headers=headers, timeout=5) for server in servers.values()]
        equal = len({answer.content for answer in bodies}) == 1
        ours = servers["ours"]
        asked = {
            **{name: (server, PATH, [authorization]) for name, server in servers.items()},
            "ours, br": (ours, PATH, [authorization, ACCEPTS_BROTLI]),
            "ours, 304": (ours, PATH, [authorization, f"If-None-Match: {bodies[-1].headers['ETag']}"]),
            "computed": (ours, PATH, [authorization, NOT_FROM_MEMORY]),
        }
        found = load.in_turns(asked, rounds=ROUNDS, seconds=SECONDS)
    print(f"GET /v1/freeze-state ({machine()}; 16 connections, 2 workers; bodies equal: {equal})")
    report(found)


def report(found: Mapping[str, Sequence[load.Load]]) -> None:
    """Print the medians, and what they are beside each other."""
    cpu = {name: statistics.median(one.cpu for one in loads) for name, loads in found.items()}
    rates = {name: statistics.median(one.per_second for one in loads) for name, loads in found.items()}
    for name, loads in found.items():
        p50 = statistics.median(one.p50_ms for one in loads)
        p99 = statistics.median(one.p99_ms for one in loads)
        statuses = {status for one in loads for status in one.statuses}
        print(
            f"  {name:10} {rates[name]:8.0f} requests/s   {cpu[name]:5.0f} µs of CPU   p50 {p50:6.2f} ms   "
            f"p99 {p99:6.2f} ms ({p99 / p50:.1f} x p50)   statuses {sorted(statuses)}"
        )
    for one, other, aim in AIMS:
        print(
            f"  {one} / {other:9} {rates[one] / rates[other]:.2f} of the requests, "
            f"{cpu[one] / cpu[other]:.2f} of the CPU of each ({aim})"
        )
