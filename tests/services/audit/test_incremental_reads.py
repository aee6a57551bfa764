"""Following the seals: a collector reads every entry once, however late and in whatever order entries are committed."""

import threading
import time
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import UnsealedEntry
from models.organizations import Organization
from services.audit.entries import list_entries
from services.audit.filters import AuditFilters
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWorkFactory
from tests.harness.concurrency import at_once, eventually, meanwhile
from tests.harness.sessions import committing
from tests.services.audit.conftest import Record, entry_of, seals
from tests.services.conftest import UnitOfWorkOpener


class TestFollowing:
    def test_collector_reads_every_entry_of_writers_that_commit_late(
        self, database: str, session: Session, jobs: UnitOfWorkFactory, acme: Organization, unit_of: UnitOfWorkOpener
    ) -> None:
        """Six writers hold their entries back for a while each; sealer and collector never stop meanwhile."""
        written: list[str] = []

        def write(writer: int) -> None:
            for turn in range(12):
                with unit_of(acme) as uow:
                    mine = [entry_of(uow, f"{writer}.{turn}.{number}") for number in range(1 + turn % 3)]
                    time.sleep((writer * 7 + turn * 5) % 11 / 500)
                written.extend(mine)

        def seal(over: threading.Event) -> None:
            while not over.is_set():
                seal_entries(jobs)

        def collect(over: threading.Event) -> list[str]:
            seen: list[str] = []
            cursor: str | None = None
            last = False
            while True:
                finished = last
                last = over.is_set()
                with unit_of(acme) as uow:
                    page = list_entries(uow, AuditFilters(), "asc", cursor, 7)
                seen += [entry["id"] for entry in page.data]
                cursor = page.next_cursor or page.follow_cursor
                if finished and not page.data:
                    return seen

        with meanwhile(collect) as [collector], meanwhile(seal) as [sealer], committing(database) as watching:
            at_once(*(partial(write, writer) for writer in range(6)))
            unsealed = select(UnsealedEntry.entry_id).limit(1)
            eventually(lambda: watching.scalar(unsealed) is None, during=sealer)
        seen = collector.result()
        assert len(seen) == len(set(seen)) == 6 * 24
        assert set(seen) == set(written)
        assert [seal.entry_id for seal in seals(session, acme)] == seen

    def test_late_entry_is_sealed_last_despite_its_earlier_instant(
        self, jobs: UnitOfWorkFactory, acme: Organization, unit_of: UnitOfWorkOpener, record: Record
    ) -> None:
        """Show that the sealed order is not that of `at`: the early entry comes last."""
        with unit_of(acme) as slow:
            early = entry_of(slow)
            quick = record()
            seal_entries(jobs)
            with unit_of(acme) as uow:
                page = list_entries(uow, AuditFilters(), "asc", None, 10)
        seal_entries(jobs)
        with unit_of(acme) as uow:
            later = list_entries(uow, AuditFilters(), "asc", page.follow_cursor, 10)
        first, second = page.data[0], later.data[0]
        assert (first["id"], second["id"]) == (quick, early)
        assert second["at"] <= first["at"]
