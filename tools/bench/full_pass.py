"""What a full pass costs: 1,000 repositories with ten open heads each, at rest, code host at 50 ms a call.

The sweeper makes everything due, as it does by the clock: every branch is read anew with the checks that its heads
show, the list of repositories is compared, and what else a pass looks at. Nothing has changed, so nothing may be
written. Measured from the moment at which the sweeper takes the chore until no job has anything to do and no branch is
leased: seconds, and calls to the code host by kind. One pass before it is not counted: it learns what is remembered.
The limits of points and of requests at once are on; one worker. No aim is set; a pass every five minutes (the default
of `FULL_PASS_EVERY`) has to fit into them, beside the hourly budget of 12,500 points.
"""

import time
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, create_engine, text

from services.core.clock import DatabaseClock
from services.core.unit_of_work import Dependencies, UnitOfWorkFactory
from services.maintenance.tasks import work_waiting
from tools.bench.seeding import Account, plain
from tools.bench.servers import machine
from tools.bench.stack import INSTALLATION, LOGIN, SCALE, Stack, scaled, serving, warm
from tools.bench.writes import refused, until

REPOSITORIES, HEADS = scaled(1000), 10
LATENCY_MS = 50
PASSES = 2
MINUTE = 61 * min(1.0, SCALE)
_MAKE_DUE = text("UPDATE periodic_tasks SET done_at = done_at - interval '2 days' WHERE name = 'full_resync'")
_TAKEN = text("SELECT done_at FROM periodic_tasks WHERE name = 'full_resync' AND done_at > :before")
_BUSY = text("""
    SELECT EXISTS (SELECT FROM watched_branches WHERE due_at IS NOT NULL OR lease_token IS NOT NULL)
        OR EXISTS (SELECT FROM branch_enforcement WHERE probe_due_at <= now() OR probe_lease_until > now())
        OR EXISTS (SELECT FROM installations WHERE sync_requested_at > coalesce(synced_at, '-infinity'))
""")
"""What a job is at is not waiting any more, and not done."""


class _NoWakeups:
    """Wakes nobody: what is measured here only looks."""

    def send(self, names: set[str]) -> None:
        """Do nothing."""


def main() -> None:
    """Measure and print."""
    account = Account(LOGIN, INSTALLATION, [plain("service-{}", REPOSITORIES, HEADS)])
    settings = {"latencyMs": LATENCY_MS, "secondaryLimits": True}
    with serving([account], settings=settings) as stack:
        engine = create_engine(stack.stores.database_url)
        warm(stack, f"{LOGIN}/service-1")
        one_pass(stack, engine)
        print(
            f"Full pass over {REPOSITORIES} repositories with {HEADS} open heads each, at rest, one worker, "
            f"{LATENCY_MS} ms a call ({machine()})"
        )
        for _ in range(PASSES):
            seconds, calls = one_pass(stack, engine)
            report(seconds, calls)
        engine.dispose()


def one_pass(stack: Stack, engine: Engine) -> tuple[float, dict[str, Any]]:
    """Have everything read anew; returns the seconds that it took, and what was called."""
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), _NoWakeups(), Dependencies())
    time.sleep(MINUTE)  # the code host counts points by the minute: each pass has one of its own
    with engine.begin() as connection:
        before = connection.scalar(text("SELECT now()"))
        stack.control("GET", "/calls?reset=true")
        connection.execute(_MAKE_DUE)
    until(lambda: _taken(engine, before) is not None, every=0.05)
    until(lambda: not _busy(engine) and not work_waiting(uow_factory), every=0.05)
    taken, ended = _taken(engine, before), _now(engine)
    assert taken is not None
    calls: dict[str, Any] = stack.control("GET", "/calls")
    return (ended - taken).total_seconds(), calls


def _taken(engine: Engine, before: datetime | None) -> datetime | None:
    with engine.connect() as connection:
        found: datetime | None = connection.scalar(_TAKEN, {"before": before})
    return found


def _busy(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(connection.scalar(_BUSY))


def _now(engine: Engine) -> datetime:
    with engine.connect() as connection:
        now: datetime = connection.execute(text("SELECT now()")).scalar_one()
    return now


def report(seconds: float, calls: dict[str, Any]) -> None:
    """Print one pass."""
    written = len(calls["writesByHead"])
    print(f"  {seconds:.1f} s, {calls['total']} calls, {refused(calls)} refused, {written} heads written (aim 0)")
    for operation, count in sorted(calls["byOperation"].items(), key=lambda pair: -pair[1]):
        print(f"    {count:5} {operation}")


if __name__ == "__main__":
    main()
