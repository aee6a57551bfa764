"""`GET /v1/freeze-state`, with credential and limits: ours beside a bare Starlette route.

The route executes the same SQL, credential and state, and the same Redis command as ours without memory; ours reads the
version of freezes with the credential, and answers from memory. Both run under gunicorn with two workers, from 16
connections, in alternating rounds. Aims: 1.5 of its throughput, p99 at most 3 times p50, and a 304 0.6 of the CPU of a
200 that is computed. The CPU per request of the servers' processes says the same on a machine that does other work.

A branch of the compatibility API, for the same key in the query, takes at most 1.2 times the CPU of a computed 200:
what a classic client is answered of a frozen branch shows the time, and is not remembered.
"""

import requests

from tests import factories
from tools.bench.load import Asked, in_turns
from tools.bench.servers import Storage, storage, web

PATH = "/v1/freeze-state?repo=acme/web&branch=main"
CLASSIC = "/api/compat/v1/branches/acme/web/main/?access_token={}"
NOT_FROM_MEMORY = "Content-Type: text/plain"
"""A request that names the type of a body is answered by a query."""
AIMS = (
    ("ours", "starlette", "aim: 1.5 of the requests"),
    ("ours, 304", "computed", "aim: 0.6 of the CPU"),
    ("ours, 304", "ours", "no aim"),
    ("computed", "starlette", "no aim"),
    ("compat", "computed", "aim: 1.2 of the CPU"),
)


def seed(stores: Storage, repositories: int = 200) -> str:
    """Fill the database as a busy organisation would, and return a key's secret."""
    with stores.rows() as session:
        acme = factories.organization(session, "Acme")
        branches = [factories.watched(session, acme, f"acme/service-{number}") for number in range(repositories)]
        branches.append(factories.watched(session, acme, "acme/web"))
        for _ in range(20):  # a history of ended freezes
            freeze = factories.freeze(session, acme, [], ended_at=factories.now(), end_reason="lifted")
            for branch in branches:
                factories.target(session, freeze, branch, operation="release", state="released")
        factories.freeze(session, acme, branches)
        return factories.api_key(session, acme, "freeze:read").secret


def main() -> None:
    """Measure and print."""
    with (
        storage() as stores,
        web(stores.environment, application="tools.bench.baseline:starlette") as bare,
        web(stores.environment) as ours,
    ):
        secret = seed(stores)
        authorization = f"Authorization: Bearer {secret}"
        answer = requests.get(ours.address + PATH, headers={"Authorization": f"Bearer {secret}"}, timeout=5)
        asked = {
            "starlette": Asked(bare, PATH, [authorization]),
            "ours": Asked(ours, PATH, [authorization]),
            "ours, 304": Asked(ours, PATH, [authorization, f"If-None-Match: {answer.headers['ETag']}"]),
            "computed": Asked(ours, PATH, [authorization, NOT_FROM_MEMORY]),
            "compat": Asked(ours, CLASSIC.format(secret)),
        }
        found = in_turns(asked, seconds=3)
    print("GET /v1/freeze-state (16 connections, 2 workers; aim: p99 3 x p50)")
    for name, load in found.items():
        print(f"  {name:10} {load}   ({load.p99_ms / load.p50_ms:.1f} x p50)")
    for name, other, aim in AIMS:
        one, two = found[name], found[other]
        shares = f"{one.per_second / two.per_second:.2f} of the requests, {one.cpu / two.cpu:.2f} of the CPU of each"
        print(f"  {name} / {other:9} {shares} ({aim})")
