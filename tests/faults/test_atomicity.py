"""I4: a 2xx means that effect, audit row and idempotent reply are one commit, wherever the process dies."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from tests import factories
from tests.faults.killed_processes import ends_of

COUNTS = text(
    "SELECT (SELECT count(*) FROM freezes), (SELECT count(*) FROM freeze_targets), "
    "(SELECT count(*) FROM audit_entries WHERE action = 'freeze.started'), (SELECT count(*) FROM idempotency_keys), "
    "(SELECT count(*) FROM checks WHERE due_at IS NOT NULL)"
)


@pytest.mark.check
@pytest.mark.slow(14)
def test_request_is_atomic_when_killed_before_any_statement(own_database: str, redis_url: str) -> None:
    engine = create_engine(own_database)
    with Session(engine) as session:
        acme = factories.organization(session)
        factories.watched(session, acme)
        secret = factories.api_key(session, acme, "freeze:write").secret
        session.commit()
    boundaries = 0
    for end in ends_of("start a freeze", secret, DATABASE_URL=own_database, REDIS_URL=redis_url):
        with engine.connect() as connection:
            found = tuple(connection.execute(COUNTS).one())
        if end["killed"]:
            boundaries += 1
            assert found == (0, 0, 0, 0, 0), f"something was left by a process killed before statement {end}"
        else:
            assert end["answer"] == 1, "the retry of the same request is answered with 201"
            assert found == (1, 1, 1, 1, 1)
    assert boundaries >= 8
    engine.dispose()
