"""Workers of release 1.0.0 lease branches: while one lives, no worker of this release leases a check."""

from collections.abc import Iterator

import psycopg
import pytest

from services.core.lease_holder import LOCK_CLASS
from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.leases import acquire
from tests import factories
from tests.harness.github_harness import Builder, Harness

ENTER = "INSERT INTO lease_holders (kind) VALUES ('worker') RETURNING id"


@pytest.fixture
def former_worker(harness: Harness, build: Builder, database: str) -> Iterator[psycopg.Connection]:
    """Start a worker of the former release, which holds its lock as long as its connection lasts."""
    build("web", pulls=1)
    harness.run_until_idle()
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        [number] = connection.execute(ENTER).fetchone() or ()
        connection.execute("SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, number])
        yield connection
    harness.sql("UPDATE lease_unit SET is_check = true")


def test_no_check_is_leased_while_a_former_worker_lives(harness: Harness, former_worker: psycopg.Connection) -> None:
    harness.freeze()
    assert harness.run_until_idle() == 0
    assert harness.conclusions() == {"acme/web#1": "success"}
    [[due]] = harness.sql("SELECT due_at IS NOT NULL AND wanted_generation > written_generation FROM watched_branches")
    assert due, "the former worker finds what this release requests"
    former_worker.close()
    harness.run_until_idle()
    assert harness.conclusions() == {"acme/web#1": "failure"}


def test_what_a_former_worker_has_leased_is_taken_over(harness: Harness, former_worker: psycopg.Connection) -> None:
    harness.freeze()
    lease = "UPDATE watched_branches SET lease_token = 'former', lease_until = clock_timestamp() + interval '15 s'"
    harness.sql(lease)
    former_worker.close()
    assert harness.run_until_idle() == 0
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 s'")
    harness.run_until_idle()
    assert harness.conclusions() == {"acme/web#1": "failure"}
    assert harness.sql("SELECT at > clock_timestamp() FROM read_backs") == [(True,)]


def test_merge_queue_of_the_former_release_is_known(harness: Harness, former_worker: psycopg.Connection) -> None:
    web = harness.branches["acme/web"]
    factories.head_check(harness.session, web, factories.sha("queued"), "success")
    harness.session.commit()
    former_worker.close()
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        batch = acquire(uow)
    assert batch is not None
    assert [branch.name for branch in batch.branches] == ["main"], "it is read again"
    assert harness.sql("SELECT head_sha, numbers FROM queue_entries") == [(factories.sha("queued"), None)]


def test_request_of_the_former_release_makes_checks_due(harness: Harness, build: Builder) -> None:
    build("web", pulls=1)
    harness.run_until_idle()
    harness.sql("UPDATE watched_branches SET wanted_generation = wanted_generation + 1, due_at = clock_timestamp()")
    found = harness.sql("SELECT due_at IS NOT NULL, wanted_generation > written_generation FROM checks")
    assert found == [(True, True)]
    assert harness.sql("SELECT c.wanted_generation = b.wanted_generation FROM checks c, watched_branches b") == [
        (True,)
    ]
