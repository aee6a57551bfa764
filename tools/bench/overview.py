"""Overview, attention and the calendar of the next month, of an organisation with 1,000 watched branches.

All of them are frozen by one of 20 freezes in force, 200 freezes have ended, 50 schedules have their windows of 90
days, 100 requests wait, 100 exceptions hold, and 100,000 audit entries lie behind. Two API processes, 4 connections.
Aim: p99 of the overview at most 100 ms.
"""

from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from models.organizations import Organization
from tests import factories
from tools.bench.load import Asked, run
from tools.bench.servers import Storage, storage, web
from tools.bench.stack import scaled

BRANCHES, ENTRIES = scaled(1_000), scaled(100_000)
FREEZES, ENDED, SCHEDULES, WINDOWS, REQUESTS = 20, 200, 50, 90, 100
CONNECTIONS, SECONDS = 4, 5.0
WARM_UP = 15.0
"""Seconds in which each connection to PostgreSQL plans its statements, some ten times before it keeps a plan."""
PATHS = ("/v1/overview", "/v1/attention", f"/v1/schedules/calendar?month={factories.now() + timedelta(days=31):%Y-%m}")
AIM_MS = 100
# As the service writes them, evenly over the last 300 days. The queue of the sealer is left out of it.
FILL = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), :organization, now() - n * interval '300 days' / :rows, 'freeze.extended',
           '{"type": "user", "id": "usr_06aq1m3k0v5t8c2n7d4e9f1g61", "name": "Ada Lovelace"}', 'dashboard',
           jsonb_build_object('type', 'freeze', 'id', 'frz_' || lpad(n::text, 26, '0'), 'name', 'Release ' || n),
           'req_' || lpad(n::text, 26, '0'),
           '{"before": {"endsAt": null}, "after": {"endsAt": "2027-01-04T08:00:00Z"}, "reason": "It takes longer"}'
    FROM generate_series(1, :rows) n
""")
RELEASED = text("""
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, operation, state, generation)
    SELECT 'tgt_' || md5(f.id || b.id), f.organization_id, f.id, b.id, 'release', 'released', 1
    FROM freezes f, (SELECT id, row_number() OVER (ORDER BY id) AS number FROM watched_branches) b
    WHERE f.ended_at IS NOT NULL AND b.number % 10 = 0
""")
"""Every tenth branch was covered by each of the freezes that have ended."""


def seed(stores: Storage) -> str:
    """Fill the database, and return a key's secret."""
    with stores.rows() as session:
        acme = factories.organization(session, "Acme")
        secret = factories.api_key(session, acme, "freeze:read", "schedule:read").secret
        _frozen(session, acme)
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(FILL, {"organization": acme.id, "rows": ENTRIES})
    stores.analyze()
    return secret


def _frozen(session: Session, acme: Organization) -> None:
    """Add branches that are all frozen, with exceptions and requests, a history of freezes, and schedules."""
    repositories = [factories.repository(session, acme, f"acme/service-{number}") for number in range(BRANCHES)]
    branches = [factories.branch(session, repository) for repository in repositories]
    running = [factories.freeze(session, acme, branches[number::FREEZES]) for number in range(FREEZES)]
    for number, (repository, branch) in enumerate(zip(repositories, branches, strict=True)):
        factories.branch_enforcement(session, branch, "red" if number % 20 == 0 else "green")
        pull = factories.pull_request(session, repository)
        if number < 2 * REQUESTS:
            decision = "granted" if number % 2 else None
            factories.exception(session, running[number % FREEZES], pull, branch, decision=decision)
    for _ in range(ENDED):
        factories.freeze(session, acme, [], ended_at=factories.now(), end_reason="lifted")
    session.execute(RELEASED)
    for schedule in [factories.schedule(session, acme) for _ in range(SCHEDULES)]:
        for day in range(WINDOWS):
            factories.occurrence(session, schedule, starts_at=factories.now() + timedelta(days=day, hours=1))


def main() -> None:
    """Measure and print."""
    with storage() as stores, web(stores.environment) as server:
        authorization = f"Authorization: Bearer {seed(stores)}"
        print(f"{BRANCHES} watched branches, all frozen ({CONNECTIONS} connections, 2 workers; aim: p99 {AIM_MS} ms)")
        for path in PATHS:
            asked = Asked(server, path, [authorization])
            first, found = (run(asked, connections=CONNECTIONS, seconds=seconds) for seconds in (WARM_UP, SECONDS))
            print(f"  GET {path:38} {found}   p99 {first.p99_ms:.1f} ms in the {WARM_UP:.0f} s before")
