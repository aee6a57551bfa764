"""The compatibility API beside `GET /v1/freeze-state`: the CPU of reading one branch, and of listing an account.

The same server answers both in alternating rounds, about the same branch and for the same key, which the classic client
sends in the query. Both are computed: what a classic client is answered shows the time, and is not remembered. Aim: at
most 1.2 times the CPU. The list is that of an account with as many branches as it can have,
half of them frozen: its CPU and its bytes.
"""

import statistics
from contextlib import ExitStack

import requests
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from services.compatibility.accounts import MAX_BRANCHES
from tests import factories
from tools.bench import load
from tools.bench.freeze_state import NOT_FROM_MEMORY, PATH, seed
from tools.bench.servers import WebServer, machine, storage, web
from tools.bench.stack import scaled

ROUNDS = 7
SECONDS = 2.0
BRANCHES, LISTS = scaled(MAX_BRANCHES), 10
CLASSIC = "/api/compat/v1/branches/acme/web/main/?access_token={}"


ACCOUNT = "/api/compat/v1/branches/globex?access_token={}"


def seed_account(database_url: str) -> str:
    """Add an account with many branches, half of them frozen, and return a key's secret."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        globex = factories.organization(session, "Globex")
        secret = factories.api_key(session, globex, "freeze:read").secret
        branches = [
            factories.branch(session, factories.repository(session, globex, f"globex/service-{number}"))
            for number in range(BRANCHES)
        ]
        factories.freeze(session, globex, branches[::2])
        session.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()
    return secret


def list_account(server: WebServer, secret: str) -> None:
    """Measure the list of the account, and print."""
    spent = []
    for _ in range(LISTS):
        before = server.cpu_seconds
        answer = requests.get(server.address + ACCOUNT.format(secret), timeout=60)
        answer.raise_for_status()
        spent.append((server.cpu_seconds - before) * 1e3)
    shown = answer.json()
    print(f"GET an account of {len(shown['frozen'])} frozen and {len(shown['unfrozen'])} other branches")
    print(f"  {statistics.median(spent):.0f} ms of CPU, {len(answer.content) / 1e6:.2f} MB")


def main() -> None:
    """Measure and print."""
    with storage() as stores, ExitStack() as stack:
        secret = seed(stores.database_url)
        of_account = seed_account(stores.database_url)
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
        list_account(server, of_account)
    cpu = {name: statistics.median(values) for name, values in spent.items()}
    print(f"GET one branch ({machine()}; 16 connections, 2 workers; statuses {sorted(statuses)})")
    for name, microseconds in cpu.items():
        print(f"  {name:13} {microseconds:5.0f} µs of CPU")
    print(f"  compat / freeze-state {cpu['compat'] / cpu['freeze-state']:.2f} (aim at most 1.2)")


if __name__ == "__main__":
    main()
