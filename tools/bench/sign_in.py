"""Signing in: what hashing a password costs, and what 20 people who sign in at once cost everybody else.

A pipeline polls `GET /v1/freeze-state` from 4 connections, first alone, then while 20 clients sign in one sign-in after
the other, in turns. Aims: a hash takes at least 50 ms, and freeze-state is answered as if nobody signed in.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from services.core.password_hashing import PasswordHasher
from tests import factories
from tools.bench import load
from tools.bench.freeze_state import PATH, seed
from tools.bench.servers import machine, storage, web

CLIENTS = 20
CONNECTIONS = 4
ROUNDS = 3
SECONDS = 5.0
HASHES = 10
PASSWORD = "a passphrase of the benchmark"  # noqa: S105 - opens nothing but this simulation


def hashing() -> tuple[float, float]:
    """Return the milliseconds of hashing a password, and of comparing one; medians."""
    hasher = PasswordHasher()
    hashed = hasher.hash(PASSWORD)
    return _milliseconds(lambda: hasher.hash(PASSWORD)), _milliseconds(lambda: hasher.verify(hashed, PASSWORD))


def _milliseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(HASHES):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def people(database_url: str) -> list[str]:
    """Add people with a password, and return their addresses."""
    engine = create_engine(database_url)
    hashed, found = PasswordHasher().hash(PASSWORD), []
    with Session(engine) as session:
        for _ in range(CLIENTS):
            person = factories.user(session)
            person.password_hash, person.email_verified_at = hashed, factories.now()
            found.append(person.email)
        session.commit()
    engine.dispose()
    return found


@contextmanager
def signing_in(address: str, emails: list[str]) -> Iterator[list[tuple[float, int]]]:
    """Have everybody sign in again and again during the block; yields seconds and status of each sign-in."""
    taken: list[tuple[float, int]] = []
    ending = threading.Event()

    def one(email: str) -> None:
        with requests.Session() as http:
            while not ending.is_set():
                began = time.perf_counter()
                body = {"email": email, "password": PASSWORD}
                answer = http.post(f"{address}/api/auth/sign-in", json=body, timeout=60)
                taken.append((time.perf_counter() - began, answer.status_code))

    clients = [threading.Thread(target=one, args=(email,)) for email in emails]
    for client in clients:
        client.start()
    try:
        yield taken
    finally:
        ending.set()
        for client in clients:
            client.join()


def main() -> None:
    """Measure and print."""
    hashed_in, compared_in = hashing()
    with storage() as stores:
        header = f"Authorization: Bearer {seed(stores.database_url)}"
        emails = people(stores.database_url)
        environment = {**stores.environment, "RATE_LIMIT_ORGANIZATION": "1000000000", "LOG_LEVEL": "WARNING"}
        alone, meanwhile, seconds = [], [], 0.0
        taken: list[tuple[float, int]] = []
        with web("app.main:app", environment, "/healthz") as address:
            for _ in range(ROUNDS):
                alone.append(_polled(address, header))
                began = time.perf_counter()
                with signing_in(address, emails) as times:
                    meanwhile.append(_polled(address, header))
                seconds += time.perf_counter() - began
                taken += times
    print(f"Signing in ({machine()}; 2 workers, freeze-state from {CONNECTIONS} connections)")
    print(f"  hashing a password {hashed_in:.0f} ms, comparing one {compared_in:.0f} ms (aim 50 or more)")
    for name, loads in {"nobody signs in": alone, f"{CLIENTS} sign in": meanwhile}.items():
        p50, p99, rate = (
            statistics.median(getattr(one, field) for one in loads) for field in ("p50_ms", "p99_ms", "per_second")
        )
        statuses = sorted({status for one in loads for status in one.statuses})
        print(
            f"  freeze-state, {name:16} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   {rate:6.0f} requests/s   "
            f"statuses {statuses}"
        )
    median = statistics.median(took for took, _ in taken)
    answered = sorted({status for _, status in taken})
    print(f"  sign-ins {len(taken) / seconds:.1f} a second, median {median * 1000:.0f} ms, statuses {answered}")


def _polled(address: str, header: str) -> load.Load:
    return load.run(address + PATH, headers=[header], connections=CONNECTIONS, seconds=SECONDS)


if __name__ == "__main__":
    main()
