"""What a credential costs: microseconds of each request, for a key and for a session JWT.

Measured in process on the real PostgreSQL: `Credentials.identify` alone, and the whole of `GET /v1/freeze-state`
through the application, in turns. The processor's time is that of the API process; the time on the clock holds
PostgreSQL's answer too. What is looked up is looked up on every request; that a JWT's signature is good is remembered,
and what finding it out costs is a figure of its own.

The plan is computed from grants, which the check reads as well. What that costs is measured beside the same check with
a plan that is stored in the row of the organisation, in short turns on connections of their own. Aim: a ratio of 1.05.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

import uvloop
from sqlalchemy import create_engine, text
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
from tools.bench.servers import Storage, machine, storage

ROUNDS = 5
SECONDS = 1.0
FRESH_TOKENS = 500
TURNS = 300
CALLS_OF_A_TURN = 40
STORED_PLAN = {
    "SELECT * FROM find_api_key(%s)": "SELECT * FROM stored_plans.find_api_key(%s)",
    "SELECT * FROM find_session(%s, %s)": "SELECT * FROM stored_plans.find_session(%s, %s)",
}
"""The statements of the check, and those that return a plan which is stored in the row of the organisation."""
Ask = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of one call: of our processor, and on the clock."""

    processor: float
    clock: float


def tokens(database_url: str, count: int) -> list[str]:
    """Sign a member of the seeded organisation in so many times, and return the JWTs."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        lasting = timedelta(hours=1)
        found = [factories.session_token(session, member, organization, ttl=lasting) for _ in range(count)]
        session.commit()
    engine.dispose()
    return found


def scope(authorization: bytes) -> dict[str, Any]:
    """Return the ASGI scope of `GET /v1/freeze-state`, as uvicorn makes it."""
    path, _, query = PATH.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"user-agent", b"bench"), (b"authorization", authorization)],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }


def request(application: Any, authorization: bytes) -> Ask:
    """Return what sends one request to the application, and fails unless it is answered with 200."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200, message

    async def ask() -> None:
        await application(scope(authorization), receive, send)

    return ask


async def measure(ask: Ask, seconds: float) -> Cost:
    """Call again and again, one call after the other."""
    for _ in range(50):
        await ask()
    count, processor, clock = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < clock + seconds:
        for _ in range(20):
            await ask()
        count += 20
    return Cost((time.process_time() - processor) / count * 1e6, (time.perf_counter() - clock) / count * 1e6)


async def first_sight(credentials: Credentials, fresh: list[str]) -> float:
    """Return what a JWT costs that this process has not seen before, in microseconds of the processor."""
    began = time.process_time()
    for token in fresh:
        await credentials.identify(b"Bearer " + token.encode())
    return (time.process_time() - began) / len(fresh) * 1e6


def config_of(stores: Storage) -> Config:
    """Return the configuration of an application whose limits are never met."""
    return Config(
        database_url=stores.database_url,
        redis_url=stores.redis_url,
        rate_limit_organization=10**9,
        cursor_secret="a secret of the benchmark",  # noqa: S106 - opens nothing
        secret_key="another secret of the benchmark",  # noqa: S106 - the same
    )


def application_of(config: Config) -> Application:
    """Return the application, which wakes no workers: nothing is written here."""
    return create_app(config, Parts(wakeups=NoWakeups(), access_log=False))


def credentials_of(reads: Reads, config: Config) -> tuple[Credentials, KeyUses]:
    """Return what checks credentials, and what records the uses of keys."""
    uses = KeyUses(reads)
    return make_credentials(config, reads, uses, DatabaseClock()), uses


async def compare(stores: Storage, key: str, token: str, fresh: list[str]) -> None:
    """Measure in turns, and print the medians."""
    config = config_of(stores)
    application = application_of(config)
    reads = Reads(stores.database_url, 2)
    credentials, uses = credentials_of(reads, config)
    held = {"key": b"Bearer " + key.encode(), "JWT": b"Bearer " + token.encode()}
    found: dict[tuple[str, str], list[Cost]] = {}
    async with Lifespan(application):
        for _ in range(ROUNDS):
            for kind, header in held.items():
                for what, ask in {
                    "identify": lambda header=header: credentials.identify(header),  # type: ignore[misc]
                    "freeze-state": request(application, header),
                }.items():
                    found.setdefault((kind, what), []).append(await measure(ask, SECONDS))
        unseen = await first_sight(credentials, fresh)
    await uses.close()
    await reads.close()
    report(found, unseen)
    for kind, header in held.items():
        report_plans(kind, await compare_plans(stores.database_url, config, header))


@dataclass(slots=True)
class Check:
    """A credential check with the plan that follows from it, on a connection of its own."""

    ask: Ask
    backend: int
    """The process id of PostgreSQL's side of the connection."""
    costs: list[Cost]
    ticks: int = 0
    """Of the processor, of PostgreSQL's side."""


class _StoredPlans(Reads):
    """Reads the plan from the row of the organisation."""

    async def fetch(self, sql: LiteralString, *arguments: Any) -> list[dict[str, Any]]:
        """Run a query, and another one in place of those of the check."""
        return await super().fetch(STORED_PLAN.get(sql, sql), *arguments)


class _ComputedPlans(Reads):
    """Reads grants, as the service does; as many calls as the other."""

    async def fetch(self, sql: LiteralString, *arguments: Any) -> list[dict[str, Any]]:
        """Run a query."""
        return await super().fetch(sql, *arguments)


def store_plans(database_url: str) -> None:
    """Make functions that return a plan of the organisation's row where the service's return its grants."""
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA stored_plans"))
        connection.execute(text("GRANT USAGE ON SCHEMA stored_plans TO PUBLIC"))
        connection.execute(text("GRANT CREATE ON SCHEMA stored_plans TO change_freeze_worker"))
        stored = """'[["manual","business",null]]'"""
        connection.execute(text(f"ALTER TABLE organizations ADD COLUMN plan TEXT NOT NULL DEFAULT {stored}"))
        for name in ("find_api_key", "find_session"):
            query = text("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = :name")
            source = str(connection.scalar(query, {"name": name}))
            begin = source.index("CASE WHEN p.organization_id")
            end = source.index("END", begin) + len("END")
            changed = (source[:begin] + "o.plan" + source[end:]).replace("public.", "stored_plans.", 1)
            changed = changed.replace("LEFT JOIN plan_grants p ON p.organization_id = o.id", "")
            connection.exec_driver_sql(changed.replace("%", "%%"))
            arguments = changed[changed.index(name) :].partition("RETURNS")[0].strip()
            connection.execute(text(f"ALTER FUNCTION stored_plans.{arguments} OWNER TO change_freeze_worker"))
    engine.dispose()


async def compare_plans(database_url: str, config: Config, header: bytes) -> tuple[Check, Check]:
    """Check a credential in short turns, with its plan computed and with a stored one."""
    checks, opened = [], []
    for kind in (_ComputedPlans, _StoredPlans):
        reads = kind(database_url, 1)
        credentials, uses = credentials_of(reads, config)
        opened += [uses, reads]

        async def ask(credentials: Credentials = credentials) -> None:
            identity = await credentials.identify(header)
            assert identity.principal.grants.at(identity.now).plan.id == "business"

        [row] = await reads.fetch("SELECT pg_backend_pid() AS pid")
        checks.append(Check(ask, row["pid"], []))
    for turn in range(TURNS):
        for check in checks if turn % 2 else checks[::-1]:
            before = _ticks(check.backend)
            processor, clock = time.process_time(), time.perf_counter()
            for _ in range(CALLS_OF_A_TURN):
                await check.ask()
            spent = time.process_time() - processor, time.perf_counter() - clock
            check.costs.append(Cost(*(seconds / CALLS_OF_A_TURN * 1e6 for seconds in spent)))
            check.ticks += _ticks(check.backend) - before
    for each in opened:
        await each.close()
    computed, stored = checks
    return computed, stored


def _ticks(process_id: int) -> int:
    """Return the processor's time of a process until now, in ticks."""
    return sum(int(value) for value in Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[11:13])


def report_plans(kind: str, checks: tuple[Check, Check]) -> None:
    """Print what computed plans cost beside stored ones."""
    computed, stored = (_median(check.costs) for check in checks)
    calls = TURNS * CALLS_OF_A_TURN
    postgres = [check.ticks / os.sysconf("SC_CLK_TCK") / calls * 1e6 for check in checks]
    print(
        f"  {kind:4} with its plan computed beside a stored one, {calls} checks of each: "
        f"{computed.processor / stored.processor:.3f} of the processor ({computed.processor:.0f} and "
        f"{stored.processor:.0f} µs), {computed.clock / stored.clock:.3f} on the clock ({computed.clock:.0f} and "
        f"{stored.clock:.0f} µs), with PostgreSQL's processor "
        f"{(computed.processor + postgres[0]) / (stored.processor + postgres[1]):.3f} "
        f"(PostgreSQL {postgres[0]:.0f} and {postgres[1]:.0f} µs; aim 1.05)"
    )


class Lifespan:
    """Runs an application's lifespan around a block, as a server does (ASGI lifespan protocol, 2.0)."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._running: asyncio.Future[None] | None = None

    async def __aenter__(self) -> None:
        """Start it."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        self._running = asyncio.ensure_future(self._application(scope, self._incoming.get, self._sent.put))
        await self._tell("startup")

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self._tell("shutdown")
        assert self._running is not None
        await self._running

    async def _tell(self, what: str) -> None:
        await self._incoming.put({"type": f"lifespan.{what}"})
        answer = await self._sent.get()
        assert answer["type"] == f"lifespan.{what}.complete", answer


def report(found: dict[tuple[str, str], list[Cost]], unseen: float) -> None:
    """Print the table."""
    print(f"Credentials ({machine()}; one process, one request after the other)")
    for kind in ("key", "JWT"):
        alone, whole = (_median(found[kind, what]) for what in ("identify", "freeze-state"))
        print(
            f"  {kind:4} {alone.processor:6.0f} µs of the processor, {alone.processor / whole.processor:4.0%} of the "
            f"{whole.processor:.0f} µs of GET /v1/freeze-state; {alone.clock:6.0f} µs on the clock, "
            f"{alone.clock / whole.clock:4.0%} of {whole.clock:.0f} µs"
        )
    print(f"  JWT  {unseen:6.0f} µs of the processor when a process sees it for the first time (ES256 is verified)")


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(one.processor for one in costs), statistics.median(one.clock for one in costs))


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        key = seed(stores.database_url)
        token, *fresh = tokens(stores.database_url, FRESH_TOKENS + 1)
        store_plans(stores.database_url)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(stores, key, token, fresh))


if __name__ == "__main__":
    main()
