"""Schedules of a large organisation: 1,000 of them on 1,000 branches, with 100,000 occurrences behind them.

Measured are planning the 90 days to come (with the windows of 400 days that overlaps are found by) for all of them, as
the sweeper does it; comparing one with all others, where nothing is shared, where some is and where everything is; and
the list, the occurrences and the calendar over HTTP. Aims: planning takes seconds, comparing at most 50 ms.

What is measured in this process is what the processes of the service do, so it puts aside what it was built of, as they
do (`app.gc_tuning`). Without that, of a hundred comparisons some took 100 ms more: a walk of the garbage collector.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import create_engine, insert, select, text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE, make_engine
from app.gc_tuning import freeze_gc
from models.organizations import Organization
from models.schedules import Schedule
from rules.access.permissions import SYSTEM
from rules.ids import new_id
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.schedules.overlapping import overlaps_of
from services.schedules.planning import extend_plans, look_ahead, ranges
from tests import factories
from tools.bench import load
from tools.bench.servers import Storage, machine, storage, web
from tools.bench.stack import scaled

SCHEDULES, BRANCHES, PAST = 1000, 1000, 100
"""Schedules, branches, and occurrences that each schedule has behind it."""
TRIES = 101
"""Comparisons; the first one, which writes the queries, does not count."""
SECONDS = 5.0
CONNECTIONS = 4
ZONES = ("Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
NIGHTS: dict[str, Any] = {"start_time": "22:00", "end_time": "06:00", "days": 1}
WEEKENDS: dict[str, Any] = {"start_time": "17:00", "end_time": "08:00", "days": 3}
TERMS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"frequency": "weekly", "by_day": ["FR"], "start_date": "2024-01-05"}, WEEKENDS),
    ({"frequency": "daily", "start_date": "2024-01-01"}, NIGHTS),
    ({"frequency": "monthly", "by_day": ["-1FR"], "start_date": "2024-01-01"}, {**NIGHTS, "days": 2}),
    ({"frequency": "weekly", "by_day": ["MO", "WE"], "start_date": "2024-01-01"}, NIGHTS),
)
MILLISECONDS = 1000

_PAST = text("""
    WITH past AS (
        SELECT s.id AS schedule_id, s.reason, s.scope, date_trunc('day', now()) - n * interval '7 days' AS starts_at,
               substr(md5(s.id || n), 1, 26) AS id
        FROM schedules s, generate_series(1, :each) n WHERE s.organization_id = :organization
    ), begun AS (
        INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ends_at, ended_at, end_reason,
            exceptions_allowed, impact_acknowledged, created_by, schedule_id, occurrence_id, enforced_at, released_at)
        SELECT 'frz_' || id, :organization, reason, scope, 'schedule', starts_at, starts_at + interval '8 hours',
            starts_at + interval '8 hours', 'schedule_ended', true, false, '{}', schedule_id, 'occ_' || id, starts_at,
            starts_at + interval '8 hours' FROM past RETURNING id
    )
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at, begun_at, freeze_id)
    SELECT 'occ_' || past.id, :organization, schedule_id, starts_at, starts_at + interval '8 hours', starts_at, begun.id
    FROM past JOIN begun ON begun.id = 'frz_' || past.id
""")


class Deaf:
    """Sends no wake-ups."""

    def send(self, names: set[str]) -> None:
        """Do nothing."""


def seed(session: Session) -> tuple[str, str]:
    """Fill the database, nothing planned yet; returns the organisation's id and a key's secret."""
    acme = factories.organization(session, "Acme")
    for number in range(scaled(BRANCHES)):
        factories.watched(session, acme, f"acme/team{number}-service")
    values = [_schedule(acme, number) for number in range(scaled(SCHEDULES))]
    session.execute(insert(Schedule), values)
    session.execute(_PAST, {"organization": acme.id, "each": PAST})
    secret = factories.api_key(session, acme, "schedule:read").secret
    session.commit()
    return acme.id, secret


def _schedule(of: Organization, number: int) -> dict[str, Any]:
    recurrence, window = TERMS[number % len(TERMS)]
    return {
        "id": new_id("sch"),
        "organization_id": of.id,
        "name": f"Team {number}",
        "scope": {"type": "glob", "patterns": [f"acme/team{number}-*"]},
        "timezone": ZONES[number % len(ZONES)],
        "recurrence": recurrence,
        "wall_clock_window": window,
        "reason": "Nobody of the team is here",
        "exceptions_allowed": True,
        "enabled": True,
        "allow_overlap": False,
        "source": "manual",
        "created_by": factories.SYSTEM,
        "created_at": factories.now(),
        "updated_at": factories.now(),
    }


@contextmanager
def filled(stores: Storage) -> Iterator[tuple[UnitOfWorkFactory, str, str]]:
    """Fill the stores, and yield uow_factory as the sweeper opens them, the organisation's id and a key's secret."""
    superuser = create_engine(stores.database_url)
    with Session(superuser) as session:
        organization, secret = seed(session)
    superuser.dispose()
    tidy(stores)
    engine = make_engine(stores.database_url, 2, WORKER_ROLE)
    freeze_gc()
    yield UnitOfWorkFactory(engine, DatabaseClock(), Deaf()), organization, secret
    engine.dispose()


def tidy(stores: Storage) -> None:
    """Do what autovacuum does within a minute."""
    superuser = create_engine(stores.database_url)
    with superuser.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    superuser.dispose()


def planning(uow_factory: UnitOfWorkFactory) -> float:
    """Return the seconds that planning every schedule takes."""
    begun = time.perf_counter()
    while extend_plans(uow_factory):
        pass
    return time.perf_counter() - begun


def comparing(uow_factory: UnitOfWorkFactory, organization: str, scope: dict[str, Any]) -> tuple[int, list[float]]:
    """Return how many schedules a daily one of this scope collides with, and the milliseconds of finding that out."""
    recurrence, window = TERMS[1]
    taken, count = [], 0
    for _ in range(TRIES):
        with uow_factory.open(Caller(organization, SYSTEM, "system")) as uow:
            draft = Schedule(scope=scope, timezone="UTC", recurrence=recurrence, wall_clock_window=window)
            draft.windows = ranges(look_ahead(uow, draft))
            begun = time.perf_counter()
            count = overlaps_of(uow, draft).count
            taken.append((time.perf_counter() - begun) * MILLISECONDS)
    return count, sorted(taken[1:])


def paths(uow_factory: UnitOfWorkFactory, organization: str) -> dict[str, str]:
    """Return what is asked for over HTTP, by what it is."""
    with uow_factory.open(Caller(organization, SYSTEM, "system")) as uow:
        one, now = uow.session.scalars(select(Schedule.id).limit(1)).one(), uow.now
    year_ago = f"{now - timedelta(days=365):%Y-%m-%dT00:00:00Z}"
    this, next_one = f"{now:%Y-%m}", f"{now.replace(day=1) + timedelta(days=32):%Y-%m}"
    return {
        "list": "/v1/schedules",
        "occurrences to come": f"/v1/schedules/occurrences?from={now:%Y-%m-%dT00:00:00Z}&limit=100",
        "occurrences of a year ago": f"/v1/schedules/occurrences?from={year_ago}&limit=100",
        "occurrences of one": f"/v1/schedules/occurrences?scheduleId={one}&limit=100",
        "planned occurrences": "/v1/schedules/occurrences?state=planned&limit=100",
        "calendar of this month": f"/v1/schedules/calendar?month={this}",
        "calendar of the next": f"/v1/schedules/calendar?month={next_one}&timezone=Europe/Paris",
        "preview of one": f"/v1/schedules/{one}/preview",
    }


def main() -> None:
    """Measure and print."""
    with storage() as stores, filled(stores) as (uow_factory, organization, secret):
        count = scaled(SCHEDULES)
        print(f"Schedules ({machine()}; {count} of them, {count * PAST} occurrences behind them)")
        print(f"  planning all of them {planning(uow_factory):6.1f} s (aim: seconds)")
        tidy(stores)
        for name, scope in _compared().items():
            collided, taken = comparing(uow_factory, organization, scope)
            p99 = taken[int(len(taken) * 0.99)]
            _tell(f"comparing, {name}", statistics.median(taken), p99, f"{collided} collide (aim 50 ms)")
        environment = {**stores.environment, "RATE_LIMIT_ORGANIZATION": "1000000000", "LOG_LEVEL": "WARNING"}
        with web("app.main:app", environment, "/healthz") as address:
            _measure(address, secret, paths(uow_factory, organization), _tell)


def _compared() -> dict[str, dict[str, Any]]:
    return {
        "nothing shared": {"type": "repositories", "repositories": ["acme/elsewhere"]},
        "one shared": {"type": "repositories", "repositories": ["acme/team1-service"]},
        "a tenth shared": {"type": "glob", "patterns": ["acme/team*7-service"]},
        "all shared": {"type": "organization"},
    }


def _measure(address: str, secret: str, wanted: dict[str, str], tell: Callable[..., None]) -> None:
    header = f"Authorization: Bearer {secret}"
    for name, path in wanted.items():
        load.run(address + path, headers=[header], connections=CONNECTIONS, seconds=1)
        found = load.run(address + path, headers=[header], connections=CONNECTIONS, seconds=SECONDS)
        tell(name, found.p50_ms, found.p99_ms, f"{found.per_second:.0f} a second, statuses {sorted(found.statuses)}")


def _tell(name: str, p50: float, p99: float, more: str) -> None:
    print(f"  {name:26} p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   {more}")


if __name__ == "__main__":
    main()
