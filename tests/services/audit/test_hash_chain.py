"""Seals: every committed entry gets a place, in one chain for each organisation, and none that a reader has passed."""

from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models.audit import AuditEntry, UnsealedEntry
from models.organizations import Organization
from rules.audit.hash_chain import GENESIS, canonical, seal_hash
from services.audit import hash_chain
from services.audit.hash_chain import LATE, seal_entries
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.freezes import end
from services.freezes.start import NewFreeze, start
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.audit.conftest import Record, entry_of, seals
from tests.services.conftest import UnitOfWorkOpener

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


class TestChain:
    def test_seal_has_the_next_number_and_the_previous_hash(
        self, session: Session, jobs: UnitOfWorkFactory, acme: Organization, record: Record
    ) -> None:
        entries = [record(), record()]
        assert seal_entries(jobs) == 2
        entries.append(record())
        assert seal_entries(jobs) == 1
        chain = seals(session, acme)
        assert [(seal.sequence, seal.entry_id) for seal in chain] == list(enumerate(entries, 1))
        assert [seal.previous_hash for seal in chain] == [GENESIS, *(seal.hash for seal in chain[:-1])]
        assert session.scalars(select(UnsealedEntry.entry_id)).all() == []

    def test_many_entries_are_sealed_in_batches(
        self,
        session: Session,
        jobs: UnitOfWorkFactory,
        acme: Organization,
        record: Record,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(hash_chain, "BATCH_SIZE", 2)
        entries = [record() for _ in range(5)]
        assert seal_entries(jobs) == 5
        assert [seal.entry_id for seal in seals(session, acme)] == entries

    def test_organization_with_many_entries_does_not_delay_others(
        self,
        session: Session,
        jobs: UnitOfWorkFactory,
        acme: Organization,
        globex: Organization,
        unit_of: UnitOfWorkOpener,
        record: Record,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        record()
        seal_entries(jobs)
        monkeypatch.setattr(hash_chain, "BATCH_SIZE", 1)
        monkeypatch.setattr(hash_chain, "MAX_SECONDS", 0.0)
        for _ in range(5):
            record()
        with unit_of(globex) as uow:
            entry_of(uow)
        with jobs.open(SYSTEM_CALLER) as uow:
            assert uow.session.scalars(hash_chain._WAITING).all() == [globex.id, acme.id]

    def test_seal_instant_is_not_before_that_of_the_previous_seal(
        self, session: Session, jobs: UnitOfWorkFactory, clock: MovableClock, acme: Organization, record: Record
    ) -> None:
        clock.offset = timedelta(minutes=10)
        record()
        seal_entries(jobs)
        clock.offset = timedelta()
        record()
        seal_entries(jobs)
        chain = seals(session, acme)
        assert chain[0].sealed_at <= chain[1].sealed_at
        assert [seal.late for seal in chain] == [False, False]

    def test_entry_that_waited_over_an_hour_is_sealed_as_late(
        self, session: Session, jobs: UnitOfWorkFactory, clock: MovableClock, acme: Organization, record: Record
    ) -> None:
        record()
        clock.offset = LATE + timedelta(minutes=1)
        record()
        seal_entries(jobs)
        assert [seal.late for seal in seals(session, acme)] == [True, False]


class TestConcurrency:
    def test_uncommitted_entry_is_neither_sealed_nor_waited_for(
        self, session: Session, jobs: UnitOfWorkFactory, acme: Organization, unit_of: UnitOfWorkOpener, record: Record
    ) -> None:
        with unit_of(acme) as slow:
            early = entry_of(slow)
            quick = record()
            assert seal_entries(jobs) == 1
        assert seal_entries(jobs) == 1
        assert [seal.entry_id for seal in seals(session, acme)] == [quick, early]

    def test_rolled_back_entry_leaves_no_gap_in_the_chain(
        self, session: Session, jobs: UnitOfWorkFactory, acme: Organization, unit_of: UnitOfWorkOpener, record: Record
    ) -> None:
        with unit_of(acme) as uow:
            entry_of(uow)
            uow.session.rollback()
        record()
        assert seal_entries(jobs) == 1
        assert [seal.sequence for seal in seals(session, acme)] == [1]

    def test_organization_is_sealed_by_one_sealer_without_the_other_waiting(
        self, session: Session, jobs: UnitOfWorkFactory, acme: Organization, record: Record
    ) -> None:
        record()
        with jobs.open(SYSTEM_CALLER) as first:
            assert hash_chain._seal_batch(first, {acme.id: ""}) == (1, {})
            assert seal_entries(jobs) == 0
        assert len(seals(session, acme)) == 1

    def test_other_sealer_seals_other_organizations_meanwhile(
        self,
        session: Session,
        jobs: UnitOfWorkFactory,
        acme: Organization,
        globex: Organization,
        unit_of: UnitOfWorkOpener,
        record: Record,
    ) -> None:
        record()
        with unit_of(globex) as uow:
            entry_of(uow)
        with jobs.open(SYSTEM_CALLER) as first:
            hash_chain._seal_batch(first, {acme.id: ""})
            assert seal_entries(jobs) == 1
            assert [len(seals(session, each)) for each in (acme, globex)] == [0, 1]

    @pytest.mark.check
    @pytest.mark.slow(5)
    def test_large_freeze_and_lift_do_not_wait_for_each_other(
        self, session: Session, jobs: UnitOfWorkFactory, acme: Organization, unit_of: UnitOfWorkOpener
    ) -> None:
        factories.watched(session, acme, "acme/other")
        session.commit()
        with unit_of(acme) as uow:
            scope = {"type": "repositories", "repositories": ["acme/other"]}
            lifted = start(uow, NewFreeze(scope, "Release under way"), max_targets=1).id
        installation = session.execute(text("SELECT min(id) FROM installations")).scalar_one()
        session.execute(text(THOUSANDS), {"organization": acme.id, "installation": installation})
        session.execute(text("ANALYZE"))  # as autovacuum does: plans for the few rows before take minutes with these
        session.commit()
        many = {"type": "glob", "patterns": ["acme/many-*"]}
        with unit_of(acme) as large:
            wanted = NewFreeze(many, "Release under way", impact_acknowledged=True)
            start(large, wanted, max_targets=10_000)
            large.session.flush()
            with unit_of(acme) as small:
                small.session.execute(text("SET LOCAL lock_timeout = '50ms'"))
                end.lift(small, lifted, None)
            assert seal_entries(jobs) == 2
        assert seal_entries(jobs) == 1
        actions = select(AuditEntry.action).where(AuditEntry.id.in_([seal.entry_id for seal in seals(session, acme)]))
        assert sorted(session.scalars(actions)) == ["freeze.lifted", "freeze.started", "freeze.started"]


def test_canonical_entry_does_not_depend_on_key_order() -> None:
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


def test_broken_chain_does_not_delay_others(
    session: Session,
    jobs: UnitOfWorkFactory,
    acme: Organization,
    globex: Organization,
    record: Record,
    unit_of: UnitOfWorkOpener,
) -> None:
    sealed = record()
    seal_entries(jobs)
    with jobs.open(SYSTEM_CALLER) as uow:
        again = text("INSERT INTO audit_unsealed (entry_id, organization_id) VALUES (:entry, :organization)")
        uow.session.execute(again, {"entry": sealed, "organization": acme.id})
    seen = 0
    for _ in range(2):
        with unit_of(globex) as uow:
            entry_of(uow)
        seen += seal_entries(jobs)
    assert (seen, len(seals(session, globex)), len(seals(session, acme))) == (2, 2, 1)
