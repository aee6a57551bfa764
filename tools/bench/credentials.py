"""What a credential costs: microseconds of each request, for a key and for a session JWT.

Measured in process on the real PostgreSQL: `Credentials.identify` alone, and the whole of `GET /v1/freeze-state`
through the application, in turns. The CPU time is that of the API process; the wall-clock time includes PostgreSQL's
answer. Every request looks its credential up; the signature of a JWT is verified once in each process, which is a
figure of its own.
"""

import asyncio
import statistics
import time
from datetime import timedelta

import uvloop
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.commands.units_of_work import NoWakeups
from app.config import Config
from app.database import Reads
from app.edge.authentication import Credentials
from app.edge.key_uses import KeyUses
from app.main import Application, Parts, create_app, make_credentials
from models.organizations import Organization
from services.core.clock import DatabaseClock
from tests import factories
from tools.bench.freeze_state import PATH, seed
from tools.bench.in_process import Cost, Lifespan, MeasuredRequest, make_request, measure
from tools.bench.servers import Storage, machine, storage

ROUNDS = 5
SECONDS = 1.0
NEW_TOKENS = 500
"""JWTs whose signature the process has not verified yet."""


def sign_in(database_url: str, count: int) -> list[str]:
    """Return JWTs of a new member of the seeded organisation, one for each of so many sign-ins."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        ttl = timedelta(hours=1)
        tokens = [factories.session_token(session, member, organization, ttl=ttl) for _ in range(count)]
        session.commit()
    engine.dispose()
    return tokens


def make_config(stores: Storage) -> Config:
    """Return the configuration of an application whose limits are never met."""
    return Config(
        database_url=stores.database_url,
        redis_url=stores.redis_url,
        rate_limit_organization=10**9,
        cursor_secret="a secret of the benchmark",  # noqa: S106 - opens nothing
        secret_key="another secret of the benchmark",  # noqa: S106 - the same
    )


def make_application(config: Config) -> Application:
    """Return the application, which wakes no workers: nothing is written here."""
    return create_app(config, Parts(wakeups=NoWakeups(), access_log=False))


def make_credential_check(reads: Reads, config: Config) -> tuple[Credentials, KeyUses]:
    """Return what checks credentials, and what records the uses of keys."""
    uses = KeyUses(reads)
    return make_credentials(config, reads, uses, DatabaseClock()), uses


async def measure_new_tokens(credentials: Credentials, tokens: list[str]) -> float:
    """Return the CPU microseconds of checking a JWT that this process has not seen before."""
    began = time.process_time()
    for token in tokens:
        await credentials.identify(f"Bearer {token}".encode())
    return (time.process_time() - began) / len(tokens) * 1e6


async def compare(stores: Storage, key: str, token: str, new_tokens: list[str]) -> None:
    """Measure in turns, and print the medians."""
    config = make_config(stores)
    application = make_application(config)
    reads = Reads(stores.database_url, 2)
    credentials, uses = make_credential_check(reads, config)
    costs: dict[tuple[str, str], list[Cost]] = {}
    async with Lifespan(application):
        for _ in range(ROUNDS):
            for kind, bearer in {"key": f"Bearer {key}", "JWT": f"Bearer {token}"}.items():
                requests: dict[str, MeasuredRequest] = {
                    "identify": lambda bearer=bearer: credentials.identify(bearer.encode()),  # type: ignore[misc]
                    "freeze-state": make_request(application, "GET", PATH, {"authorization": bearer}),
                }
                for name, request in requests.items():
                    costs.setdefault((kind, name), []).append(await measure(request, SECONDS))
        new_token = await measure_new_tokens(credentials, new_tokens)
    await uses.close()
    await reads.close()
    report(costs, new_token)


def report(costs: dict[tuple[str, str], list[Cost]], new_token: float) -> None:
    """Print the table."""
    print(f"Credentials ({machine()}; one process, one request after the other)")
    for kind in ("key", "JWT"):
        alone, whole = (_median(costs[kind, name]) for name in ("identify", "freeze-state"))
        print(
            f"  {kind:4} {alone.cpu:6.0f} µs of CPU, {alone.cpu / whole.cpu:4.0%} of the {whole.cpu:.0f} µs of "
            f"GET /v1/freeze-state; {alone.wall:6.0f} µs of wall-clock time, {alone.wall / whole.wall:4.0%} of "
            f"{whole.wall:.0f} µs"
        )
    print(f"  JWT  {new_token:6.0f} µs of CPU when a process sees it for the first time (ES256 is verified)")


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.wall for cost in costs))


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        key = seed(stores.database_url)
        token, *new_tokens = sign_in(stores.database_url, NEW_TOKENS + 1)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(stores, key, token, new_tokens))


if __name__ == "__main__":
    main()
