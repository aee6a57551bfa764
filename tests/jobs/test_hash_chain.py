"""The sweeper seals the audit on a thread of its own: whatever else it does, entries have their place in seconds."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from jobs.context import Context
from jobs.sweep import SEAL_INTERVAL, Sweeper
from tests.harness.concurrency import PATIENCE, eventually, meanwhile
from tests.harness.github_harness import Builder, Harness
from tests.jobs.conftest import NEVER

WITHIN = 5.0
"""Seconds from the commit of an entry to its seal (design, "Audit")."""


@pytest.fixture
def busy_sweeper(job_context: Context) -> Iterator[threading.Event]:
    """Run a sweeper that hangs as soon as there is work; yield the event that is set then."""
    stuck, free = threading.Event(), threading.Event()

    def workers_available() -> bool:
        stuck.set()
        return free.wait(PATIENCE)

    sweeper = Sweeper(job_context, workers_available, NEVER)
    with meanwhile(lambda over: sweeper.run(over, 0.05)):
        try:
            yield stuck
        finally:
            free.set()


def test_entries_are_sealed_when_the_sweeper_is_busy(
    harness: Harness, build: Builder, busy_sweeper: threading.Event
) -> None:
    build("web")
    harness.freeze()
    assert busy_sweeper.wait(PATIENCE)
    freeze = harness.freeze()
    query = text("SELECT count(*) FROM audit_seals s JOIN audit_entries e ON e.id = s.entry_id WHERE e.target_id = :id")
    eventually(lambda: harness.session.execute(query, {"id": freeze}).scalar_one())


def test_seal_interval_is_within_the_promised_delay() -> None:
    assert SEAL_INTERVAL < WITHIN / 2
