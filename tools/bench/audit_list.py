"""`GET /v1/audit` of an organisation with 5,000,000 entries: the first page, and the 1,000th (or the last), by filter.

Entries are spread over 300 days, all sealed: six actions of which the rarest comes once in 10,000, 500 people, 200,000
objects, seven ways. Pages of 50; two API processes, 4 connections. Each line is one filter in one order: `desc` is the
newest first, `asc` the order of the seals. At the end, what the sealer seals in a second. No aim is set.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

import requests
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.commands.command_line import NoWakeups
from app.database import WORKER_ROLE, make_engine
from services.audit.hash_chain import LONGEST, seal_entries
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWorkFactory
from tests import factories
from tools.bench import load
from tools.bench.servers import machine, storage, web
from tools.bench.stack import SCALE, scaled

ENTRIES, UNSEALED = scaled(5_000_000), scaled(20_000)
CONNECTIONS, SECONDS = 4, 3.0 if SCALE == 1 else 0.5
PAGE, FAR = 50, 1000
PATH = "/v1/audit"

# Without their indexes, which are made afterwards: ten times as fast.
_INDEXES = text("""
    SELECT indexname, indexdef FROM pg_indexes
    WHERE tablename IN ('audit_entries', 'audit_seals') AND indexname NOT LIKE 'pk_%'
""")
_FILL = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), :organization, now() - (:rows - n) * interval '300 days' / :rows,
           CASE WHEN n % 10000 = 77 THEN 'freeze.bypassed' WHEN n % 3 = 0 THEN 'freeze.started' ELSE
               (ARRAY['freeze.lifted', 'freeze.expired', 'session.started', 'branch.watched'])[1 + n % 4] END,
           jsonb_build_object('type', 'user', 'id', 'usr_' || CASE WHEN n % 50000 = 4711 THEN 'rare'
               ELSE (n * 7919 % 500)::text END, 'name', 'Ada Lovelace'),
           (ARRAY['dashboard', 'api', 'api', 'schedule', 'system', 'code_host', 'mcp'])[1 + n % 7],
           jsonb_build_object('type', 'freeze', 'id', 'frz_' || n * 104729 % 200000, 'name', 'Release ' || n),
           'req_' || lpad(n::text, 26, '0'),
           '{"before": {"endsAt": null}, "after": {"endsAt": "2027-01-04T08:00:00Z"}}'
    FROM generate_series(CAST(1 AS bigint), :rows) n
""")
_SEAL = text("""
    INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at, action, actor_id,
                             target_id, source)
    SELECT organization_id, row_number() OVER (ORDER BY at, id), id, sha256(id::bytea), sha256(id::bytea),
           at + interval '1 second', action, actor_id, target_id, source
    FROM audit_entries
""")
_WAITING = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_new' || n, :organization, now(), 'freeze.started', '{"type": "system", "id": null, "name": "x"}',
           'system', '{"type": "freeze", "id": "frz_1", "name": "x"}', '{"before": null, "after": {"endsAt": null}}'
    FROM generate_series(CAST(1 AS bigint), :rows) n
""")


@dataclass(frozen=True, slots=True)
class Case:
    """A filter in an order."""

    name: str
    query: dict[str, str]


NARROWED = {
    "all": {},
    "a frequent action": {"action": "freeze.started"},
    "a rare action": {"action": "freeze.bypassed"},
    "an actor": {"actorId": "usr_42"},
    "a rare actor": {"actorId": "usr_rare"},
    "a target": {"targetId": "frz_42"},
    "a source": {"source": "mcp"},
    "an action of an actor": {"action": "freeze.lifted", "actorId": "usr_42"},
    "a week of last year's": {"from": "-200", "to": "-193"},
}
CASES = [
    Case(f"{order:4} {name}", {"order": order, **query})
    for order in ("desc", "asc")
    for name, query in NARROWED.items()
]


def seed(database_url: str) -> tuple[str, str]:
    """Fill the audit of one organisation; returns its id, and the secret of a key."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        acme = factories.organization(session, "Acme")
        organization_id, secret = acme.id, factories.api_key(session, acme, "audit:read").secret
        indexes = session.execute(_INDEXES).all()
        for index in indexes:
            session.execute(text(f"DROP INDEX {index.indexname}"))
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(_FILL, {"organization": organization_id, "rows": ENTRIES})
        session.execute(_SEAL)
        for index in indexes:
            session.execute(text(index.indexdef))
        session.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
        connection.execute(text("CHECKPOINT"))
    engine.dispose()
    return organization_id, secret


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        organization_id, secret = seed(stores.database_url)
        environment = {
            **stores.environment,
            "RATE_LIMIT_ORGANIZATION": "1000000000",
            "CURSOR_SECRET": "a secret of the benchmark",
            "LOG_LEVEL": "WARNING",
        }
        print(f"GET {PATH}, {ENTRIES} entries in one organisation ({machine()}; {CONNECTIONS} connections, 2 workers)")
        with web("app.main:app", environment, "/healthz") as address, requests.Session() as http:
            http.headers["Authorization"] = f"Bearer {secret}"
            for case in CASES:
                measure(http, address, case, secret)
        seal(stores.database_url, organization_id)


def measure(http: requests.Session, address: str, case: Case, secret: str) -> None:
    """Ask for the first page of a case, and for one that is far behind it."""
    query = {"limit": str(PAGE), **{name: _instant(value) for name, value in case.query.items()}}
    far, cursor = far_behind(http, address, query)
    for page, more in ((1, {}), (far, {"cursor": cursor} if cursor else {})):
        url = f"{address}{PATH}?{urlencode({**query, **more})}"
        found = load.run(url, headers=[f"Authorization: Bearer {secret}"], connections=CONNECTIONS, seconds=SECONDS)
        assert set(found.statuses) == {"200"}, found.statuses
        print(f"  {case.name:28} page {page:4}   p50 {found.p50_ms:7.1f} ms   p99 {found.p99_ms:7.1f} ms")


def _instant(value: str) -> str:
    """Return days before now as an instant; other values are what they are."""
    if not value.startswith("-"):
        return value
    return (factories.now() + timedelta(days=int(value))).strftime("%Y-%m-%dT%H:%M:%SZ")


def far_behind(http: requests.Session, address: str, query: dict[str, str]) -> tuple[int, str | None]:
    """Go through the pages; returns the number of the 1,000th or the last, and its cursor."""
    cursor: str | None = None
    for page in range(1, FAR):
        answer = http.get(address + PATH, params={**query, **({"cursor": cursor} if cursor else {})}, timeout=60)
        answer.raise_for_status()
        following = answer.json()["nextCursor"]
        if following is None:
            return page, cursor
        cursor = following
    return FAR, cursor


def seal(database_url: str, organization_id: str) -> None:
    """Have the sealer seal entries behind all the others."""
    engine = make_engine(database_url, 2, role=WORKER_ROLE)
    owner = create_engine(database_url)
    with owner.begin() as connection:
        connection.execute(_WAITING, {"organization": organization_id, "rows": UNSEALED})
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups())
    begun, sealed, turns = time.perf_counter(), 0, 0
    while sealed < UNSEALED:
        sealed, turns = sealed + seal_entries(uow_factory), turns + 1
    took = time.perf_counter() - begun
    print(f"  sealing: {sealed / took:.0f} entries a second, {UNSEALED} in {turns} turns of {LONGEST:.0f} s at most")
    for each in (engine, owner):
        each.dispose()


if __name__ == "__main__":
    main()
