"""Seals: every committed entry gets a place, in one chain for each organisation, and none that a reader has passed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from models.audit import AuditEntry, UnsealedEntry
from models.organizations import Organization
from rules.audit_chain import NOTHING_BEFORE, canonical, seal_hash
from services import lifting
from services.audit import sealing
from services.audit.filters import AuditFilters
from services.audit.listing import list_entries
from services.audit.sealing import LATE, seal_entries
from services.freezes import NewFreeze, start
from services.unit import Units
from tests import factories
from tests.services.audit.conftest import Record, entry_of, seals
from tests.services.conftest import MovedClock, Opener

THOUSANDS = """
    WITH made AS (
        INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                                  private, enabled, created_at, synced_at)
        SELECT 'rep_' || n, :organization, :installation, 1000000 + n, n, 'acme', 'many-' || n, 'main', false, true,
               now(), now()
        FROM generate_series(1, 10000) n RETURNING id
    )
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || id, :organization, id, 'main', 'change-freeze/main', now() FROM made
"""


class TestTheChain:
    def test_an_entry_waits_for_its_seal_from_its_commit_on(self, session: Session, record: Record) -> None:
        entry = record()
        assert session.scalars(select(UnsealedEntry.entry_id)).all() == [entry]

    def test_each_seal_has_the_next_number_and_the_hash_of_the_one_before(
        self, session: Session, jobs: Units, acme: Organization, record: Record
    ) -> None:
        entries = [record(), record()]
        assert seal_entries(jobs) == 2
        entries.append(record())
        assert seal_entries(jobs) == 1
        chain = seals(session, acme)
        assert [(seal.sequence, seal.entry_id) for seal in chain] == list(enumerate(entries, 1))
        assert [seal.previous_hash for seal in chain] == [NOTHING_BEFORE, *(seal.hash for seal in chain[:-1])]
        assert session.scalars(select(UnsealedEntry.entry_id)).all() == []

    def test_a_hash_can_be_computed_by_anybody_who_reads_what_it_is_made_of(
        self, session: Session, jobs: Units, acme: Organization, record: Record
    ) -> None:
        entry = session.get_one(AuditEntry, record(before=None, after={"ü": [1, 1.5, True]}))
        seal_entries(jobs)
        written = (
            f'{{"action":"freeze.started","actor":{{"id":"usr_ada","name":"Ada","type":"user"}},'
            f'"at":"{entry.at:%Y-%m-%dT%H:%M:%S.%f}Z","details":{{"after":{{"ü":[1,1.5,true]}},"before":null}},'
            f'"id":"{entry.id}","organizationId":"{acme.id}","requestId":null,"source":"dashboard",'
            f'"target":{{"id":"frz_1","name":"Quarter-end close","type":"freeze"}}}}'
        )
        assert seals(session, acme)[0].hash == sha256(bytes(32) + written.encode()).digest()

    def test_organisations_have_chains_of_their_own(
        self, session: Session, jobs: Units, acme: Organization, globex: Organization, unit_of: Opener, record: Record
    ) -> None:
        record()
        with unit_of(globex) as unit:
            entry_of(unit)
        seal_entries(jobs)
        assert [len(seals(session, each)) for each in (acme, globex)] == [1, 1]

    def test_nothing_to_seal_is_nothing_done(self, jobs: Units, acme: Organization) -> None:
        assert seal_entries(jobs) == 0

    def test_a_crowd_is_sealed_piece_by_piece(
        self, session: Session, jobs: Units, acme: Organization, record: Record, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sealing, "PIECE", 2)
        entries = [record() for _ in range(5)]
        assert seal_entries(jobs) == 5
        assert [seal.entry_id for seal in seals(session, acme)] == entries

    def test_who_has_a_crowd_keeps_nobody_else_waiting(
        self,
        session: Session,
        jobs: Units,
        acme: Organization,
        globex: Organization,
        unit_of: Opener,
        record: Record,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        record()
        seal_entries(jobs)
        monkeypatch.setattr(sealing, "PIECE", 1)
        monkeypatch.setattr(sealing, "LONGEST", 0.0)
        for _ in range(5):
            record()
        with unit_of(globex) as unit:
            entry_of(unit)
        with jobs.open(sealing.JOB) as unit:
            assert unit.session.scalars(sealing._WAITING).all() == [globex.id, acme.id]

    def test_a_seal_is_never_older_than_its_entry_nor_than_the_seal_before(
        self, session: Session, jobs: Units, clock: MovedClock, acme: Organization, record: Record
    ) -> None:
        clock.ahead = timedelta(minutes=10)
        record()
        seal_entries(jobs)
        clock.ahead = timedelta()
        record()
        seal_entries(jobs)
        chain = seals(session, acme)
        assert chain[0].sealed_at <= chain[1].sealed_at
        assert [seal.late for seal in chain] == [False, False]

    def test_one_that_waited_for_an_hour_is_marked_as_late(
        self, session: Session, jobs: Units, clock: MovedClock, acme: Organization, record: Record
    ) -> None:
        record()
        clock.ahead = LATE + timedelta(minutes=1)
        record()
        seal_entries(jobs)
        assert [seal.late for seal in seals(session, acme)] == [True, False]


class TestNobodyWaits:
    def test_what_is_not_committed_is_neither_sealed_nor_waited_for(
        self, session: Session, jobs: Units, acme: Organization, unit_of: Opener, record: Record
    ) -> None:
        with unit_of(acme) as slow:
            early = entry_of(slow)
            quick = record()
            assert seal_entries(jobs) == 1
        assert seal_entries(jobs) == 1
        assert [seal.entry_id for seal in seals(session, acme)] == [quick, early]

    def test_what_was_rolled_back_leaves_no_gap(
        self, session: Session, jobs: Units, acme: Organization, unit_of: Opener, record: Record
    ) -> None:
        with unit_of(acme) as unit:
            entry_of(unit)
            unit.session.rollback()
        record()
        assert seal_entries(jobs) == 1
        assert [seal.sequence for seal in seals(session, acme)] == [1]

    def test_of_two_sealers_one_gets_an_organisation_and_the_other_does_not_wait(
        self, session: Session, jobs: Units, acme: Organization, record: Record
    ) -> None:
        record()
        with jobs.open(sealing.JOB) as first:
            assert sealing._seal_piece(first, acme.id) == 1
            assert seal_entries(jobs) == 0
        assert len(seals(session, acme)) == 1

    def test_a_freeze_of_ten_thousand_branches_and_a_lift_do_not_wait_for_each_other(
        self, session: Session, jobs: Units, acme: Organization, unit_of: Opener
    ) -> None:
        factories.watched(session, acme, "acme/other")
        session.commit()
        with unit_of(acme) as unit:
            scope = {"type": "repositories", "repositories": ["acme/other"]}
            lifted = start(unit, NewFreeze(scope, "Release under way"), most_targets=1).id
        installation = session.execute(text("SELECT min(id) FROM installations")).scalar_one()
        session.execute(text(THOUSANDS), {"organization": acme.id, "installation": installation})
        session.commit()
        many = {"type": "glob", "patterns": ["acme/many-*"]}
        with unit_of(acme) as large:
            wanted = NewFreeze(many, "Release under way", impact_acknowledged=True)
            start(large, wanted, most_targets=10_000)
            large.session.flush()
            with unit_of(acme) as small:
                small.session.execute(text("SET LOCAL lock_timeout = '50ms'"))
                lifting.lift(small, lifted, None)
            assert seal_entries(jobs) == 2
        assert seal_entries(jobs) == 1
        actions = select(AuditEntry.action).where(AuditEntry.id.in_([seal.entry_id for seal in seals(session, acme)]))
        assert sorted(session.scalars(actions)) == ["freeze.lifted", "freeze.started", "freeze.started"]


class TestFollowing:
    def test_a_collector_misses_nothing_of_writers_that_commit_late_and_in_any_order(
        self, session: Session, jobs: Units, acme: Organization, unit_of: Opener
    ) -> None:
        """Eight writers hold their entries back for a while each; sealer and collector never stop meanwhile."""
        written: list[str] = []
        done = threading.Event()

        def write(writer: int) -> None:
            for turn in range(12):
                with unit_of(acme) as unit:
                    mine = [entry_of(unit, f"{writer}.{turn}.{number}") for number in range(1 + turn % 3)]
                    time.sleep((writer * 7 + turn * 5) % 11 / 500)
                written.extend(mine)

        def seal() -> None:
            while not done.is_set():
                seal_entries(jobs)

        def collect() -> list[str]:
            seen: list[str] = []
            cursor: str | None = None
            last = False
            while True:
                finished = last
                last = done.is_set()
                with unit_of(acme) as unit:
                    page = list_entries(unit, AuditFilters(), "asc", cursor, 7)
                seen += [entry["id"] for entry in page.data]
                cursor = page.next_cursor or page.follow_cursor
                if finished and not page.data:
                    return seen

        with ThreadPoolExecutor(10) as pool:
            collecting, sealer = pool.submit(collect), pool.submit(seal)
            writers = [pool.submit(write, writer) for writer in range(6)]
            for writer in writers:
                writer.result()
            while session.scalar(select(UnsealedEntry.entry_id).limit(1)) is not None:
                session.rollback()
            done.set()
            sealer.result()
            seen = collecting.result()
        assert len(seen) == len(set(seen)) == 6 * 24
        assert set(seen) == set(written)
        assert [seal.entry_id for seal in seals(session, acme)] == seen

    def test_the_order_of_instants_would_have_missed_the_late_one(
        self, jobs: Units, acme: Organization, unit_of: Opener, record: Record
    ) -> None:
        """Show that the sealed order is not that of `at`: the early entry comes last."""
        with unit_of(acme) as slow:
            early = entry_of(slow)
            quick = record()
            seal_entries(jobs)
            with unit_of(acme) as unit:
                page = list_entries(unit, AuditFilters(), "asc", None, 10)
        seal_entries(jobs)
        with unit_of(acme) as unit:
            later = list_entries(unit, AuditFilters(), "asc", page.follow_cursor, 10)
        first, second = page.data[0], later.data[0]
        assert (first["id"], second["id"]) == (quick, early)
        assert second["at"] <= first["at"]


class TestRights:
    @pytest.mark.parametrize("role", ["app", "worker", "identity"])
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE audit_entries SET action = 'freeze.lifted'",
            "UPDATE audit_entries SET at = at",
            "UPDATE audit_seals SET hash = ''",
            "UPDATE audit_seals SET sequence = sequence + 1",
            "TRUNCATE audit_entries, audit_seals",
            "ALTER TABLE audit_entries DISABLE TRIGGER await_seal",
            "DROP TRIGGER await_seal ON audit_entries",
        ],
    )
    def test_nobody_can_change_what_was_recorded(
        self, session: Session, jobs: Units, record: Record, role: str, statement: str
    ) -> None:
        record()
        seal_entries(jobs)
        refuses(session, role, statement)

    @pytest.mark.parametrize("role", ["app", "identity"])
    @pytest.mark.parametrize(
        "statement", ["DELETE FROM audit_entries", "DELETE FROM audit_seals", "DELETE FROM audit_unsealed"]
    )
    def test_only_jobs_may_remove_anything(self, session: Session, role: str, statement: str) -> None:
        refuses(session, role, statement)

    @pytest.mark.parametrize("table", ["audit_entries", "audit_seals"])
    def test_jobs_remove_nothing_of_an_organisation_that_is_there(
        self, worker_engine: Engine, jobs: Units, record: Record, table: str
    ) -> None:
        record()
        seal_entries(jobs)
        with worker_engine.begin() as connection:
            assert connection.execute(text(f"DELETE FROM {table}")).rowcount == 0

    @pytest.mark.parametrize("role", ["app", "identity"])
    def test_nobody_but_jobs_can_seal(self, session: Session, role: str) -> None:
        statement = (
            "INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at) "
            "VALUES ('org', 1, 'aud', '', '', now())"
        )
        refuses(session, role, statement)

    def test_who_writes_an_entry_cannot_keep_it_from_its_seal(self, session: Session, engine: Engine) -> None:
        refuses(session, "app", "INSERT INTO audit_unsealed VALUES ('aud', 'org')")
        refuses(session, "app", "SET session_replication_role = replica")


def refuses(session: Session, role: str, statement: str) -> None:
    """Check that a role lacks the right to do something."""
    session.execute(text(f"SET LOCAL ROLE change_freeze_{role}"))
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        session.execute(text(statement))
    session.rollback()


def test_what_an_entry_is_hashed_as_does_not_depend_on_the_order_of_its_keys() -> None:
    now = factories.now()
    entry = {
        "id": "aud_1",
        "organization_id": "org_1",
        "at": now,
        "action": "freeze.started",
        "actor": {"type": "user", "id": "usr_1", "name": "Ada"},
        "source": "api",
        "target": {"type": "freeze", "id": "frz_1", "name": "x"},
        "request_id": None,
        "details": {"b": 1, "a": 2},
    }
    turned = dict(reversed(entry.items())) | {"details": {"a": 2, "b": 1}}
    assert canonical(entry) == canonical(turned)
    assert seal_hash(b"x", entry) != seal_hash(b"y", entry)
