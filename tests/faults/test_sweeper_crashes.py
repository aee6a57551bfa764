"""I7 and I9: what a sweeper does about time is done once and as a whole, wherever it dies."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from tests import factories
from tests.faults.killed_processes import ends_of
from tests.harness.app_key import AppKey

HOUR = timedelta(hours=1)
BEGUN = text(
    "SELECT (SELECT count(*) FROM freezes WHERE ended_at IS NULL AND ends_at > now()), "
    "(SELECT count(*) FROM occurrences WHERE started_at IS NOT NULL AND freeze_id IS NOT NULL), "
    "(SELECT count(*) FROM audit_entries WHERE action = 'freeze.started')"
)
COVERED = text(
    "SELECT (SELECT count(*) FROM freeze_targets), (SELECT count(*) FROM checks WHERE due_at IS NOT NULL), "
    "(SELECT count(*) FROM freezes WHERE targets_pending), "
    "(SELECT count(*) FROM audit_entries WHERE action = 'freeze.grew')"
)
MISSED = text(
    "SELECT (SELECT count(*) FROM occurrences WHERE missed_at IS NOT NULL), "
    "(SELECT count(*) FROM audit_entries WHERE action = 'occurrence.missed'), "
    "(SELECT count(*) FROM attention_items WHERE type = 'missed_window')"
)
ENDED = text(
    "SELECT (SELECT count(*) FROM freezes WHERE end_reason = 'expired'), "
    "(SELECT count(*) FROM audit_entries WHERE action = 'freeze.expired')"
)
STATES: dict[Any, set[tuple[int, ...]]] = {
    BEGUN: {(0, 0, 0), (1, 1, 1)},
    COVERED: {(0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 0, 1)},
    MISSED: {(0, 0, 0), (1, 1, 1)},
    ENDED: {(0, 0), (1, 1)},
}
"""What is found together, and in which states: each a commit, and nothing between them."""


def seed(database_url: str) -> None:
    """Have a window of two branches be due, another one be over, and a freeze have come to its end."""
    now = factories.now()
    engine = create_engine(database_url)
    with Session(engine) as session:
        acme = factories.organization(session)
        factories.watched(session, acme, "acme/api")
        factories.watched(session, acme, "acme/web")
        for starts_at in (now, now - 2 * HOUR):
            factories.occurrence(session, factories.schedule(session, acme), starts_at=starts_at)
        factories.freeze(session, acme, started_at=now - 2 * HOUR, ends_at=now - HOUR)
        session.commit()
    engine.dispose()


@pytest.mark.check
@pytest.mark.slow(10)
def test_sweeper_is_atomic_when_killed_before_any_statement(own_database: str, redis_url: str, app_key: AppKey) -> None:
    seed(own_database)
    environment = {
        "DATABASE_URL": own_database,
        "REDIS_URL": redis_url,
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": app_key.private,
        "MAX_TARGETS": "1",
    }
    engine = create_engine(own_database)
    met: dict[Any, set[tuple[int, ...]]] = {query: set() for query in STATES}
    for end in ends_of("look at the clock", **environment):
        with engine.connect() as connection:
            for query, allowed in STATES.items():
                found = tuple(connection.execute(query).one())
                assert found in allowed, f"{query} after {end}"
                met[query].add(found)
        assert end["killed"] or end["answer"] == 0
    assert met == STATES, "every state was met: some died before each commit, and some behind it"
    engine.dispose()
