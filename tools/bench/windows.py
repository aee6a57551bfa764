"""From the start of 100 windows that begin at the same second to their heads blocked, and from their end to all free.

A hundred schedules of one organisation with ten repositories each, one open head a repository, GitHub at 50 ms a
call, one worker and one sweeper. The delay counts from the planned second: the sweeper has to come in time, begin a
hundred windows one by one, and the worker has to write a thousand heads. Aims: the first head within 2 s, the last
window started within 5 s, the last head within 15 s.
"""

import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from models.organizations import Organization
from tests import factories
from tools.bench.servers import machine
from tools.bench.stack import Stack, running, scaled, wait_for_rest, warm
from tools.bench.writes import Writes

WINDOWS, HEADS_PER_WINDOW = scaled(100), 10
LATENCY_MS = 50
AHEAD, LENGTH = timedelta(seconds=8), timedelta(seconds=60)


def main() -> None:
    """Measure and print."""
    with running(WINDOWS * HEADS_PER_WINDOW, latency_ms=LATENCY_MS) as stack:
        warm(stack, "acme/service-1")
        heads = {head["headSha"] for head in stack.control("GET", "/checks")["heads"]}
        print(f"{WINDOWS} windows at one second, {HEADS_PER_WINDOW} heads each, {LATENCY_MS} ms a call ({machine()})")
        starts_at = plan(stack)
        blocked = delays(stack, "failure", starts_at, heads)
        print(f"  last window started after {last_start(stack, starts_at):.2f} s (aim 5)")
        print(f"  first head blocked after {blocked[0]:.2f} s (aim 2), last after {blocked[-1]:.2f} s (aim 15)")
        wait_for_rest(stack)
        free = delays(stack, "success", starts_at + LENGTH, heads)
        print(f"  after the end: first head free after {free[0]:.2f} s, last after {free[-1]:.2f} s")


def plan(stack: Stack) -> datetime:
    """Plan the windows, as if they had been verified ten minutes before; return when they begin."""
    engine = create_engine(stack.stores.database_url)
    with Session(engine) as session:
        acme = session.query(Organization).one()
        starts_at = (datetime.now(UTC) + AHEAD).replace(microsecond=0)
        for number in range(WINDOWS):
            names = [f"acme/service-{number * HEADS_PER_WINDOW + each + 1}" for each in range(HEADS_PER_WINDOW)]
            schedule = factories.schedule(
                session,
                acme,
                name=f"Window {number}",
                scope={"type": "repositories", "repositories": names},
                planned_until=starts_at + timedelta(days=365),
            )
            ends_at, verified_at = starts_at + LENGTH, factories.now()
            factories.occurrence(session, schedule, starts_at=starts_at, ends_at=ends_at, verified_at=verified_at)
        session.commit()
    engine.dispose()
    return starts_at


def delays(stack: Stack, conclusion: str, since: datetime, heads: set[str]) -> list[float]:
    """Wait until all heads got a conclusion; return the seconds from a moment until each did, in order."""
    time.sleep(max(0.0, since.timestamp() - time.time()))
    writes = Writes(stack)
    writes.wait(conclusion, since.timestamp(), heads)
    return [at - since.timestamp() for at in writes.first(conclusion, since.timestamp(), heads).values()]


def last_start(stack: Stack, starts_at: datetime) -> float:
    """Return how many seconds after the start the last window had started."""
    engine = create_engine(stack.stores.database_url)
    with engine.connect() as connection:
        last: datetime = connection.execute(text("SELECT max(started_at) FROM occurrences")).scalar_one()
    engine.dispose()
    return (last - starts_at).total_seconds()


if __name__ == "__main__":
    main()
