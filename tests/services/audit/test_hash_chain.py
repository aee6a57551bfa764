"""Seals: every committed entry gets a place, in one chain for each organisation, and none that a reader has passed."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models.audit import AuditEntry, AuditSeal, UnsealedEntry
from models.organizations import Organization
from rules.audit.hash_chain import GENESIS, canonical, seal_hash
from services.audit import hash_chain
from services.audit.hash_chain import LATE, seal_entries
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
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


@dataclass(frozen=True, slots=True)
class Sealed:
    """An organisation whose entries are sealed."""

    session: Session
    row: Organization
    jobs: UnitOfWorkFactory
    unit_of: UnitOfWorkOpener
    record: Record

    @property
    def id(self) -> str:
        return self.row.id

    def open(self) -> AbstractContextManager[UnitOfWork]:
        return self.unit_of(self.row)

    def seal(self) -> int:
        return seal_entries(self.jobs)

    def chain(self) -> list[AuditSeal]:
        return seals(self.session, self.row)


@pytest.fixture
def sealed(
    session: Session, acme: Organization, jobs: UnitOfWorkFactory, unit_of: UnitOfWorkOpener, record: Record
) -> Sealed:
    return Sealed(session, acme, jobs, unit_of, record)


class TestChain:
    def test_seal_has_the_next_number_and_the_previous_hash(self, sealed: Sealed) -> None:
        entries = [sealed.record(), sealed.record()]
        assert sealed.seal() == 2
        entries.append(sealed.record())
        assert sealed.seal() == 1
        chain = sealed.chain()
        assert [(seal.sequence, seal.entry_id) for seal in chain] == list(enumerate(entries, 1))
        assert [seal.previous_hash for seal in chain] == [GENESIS, *(seal.hash for seal in chain[:-1])]
        assert sealed.session.scalars(select(UnsealedEntry.entry_id)).all() == []

    def test_many_entries_are_sealed_in_batches(self, sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hash_chain, "BATCH_SIZE", 2)
        entries = [sealed.record() for _ in range(5)]
        assert sealed.seal() == 5
        assert [seal.entry_id for seal in sealed.chain()] == entries

    def test_organization_with_many_entries_does_not_delay_others(
        self, sealed: Sealed, globex: Organization, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sealed.record()
        sealed.seal()
        monkeypatch.setattr(hash_chain, "BATCH_SIZE", 1)
        monkeypatch.setattr(hash_chain, "MAX_SECONDS", 0.0)
        for _ in range(5):
            sealed.record()
        with sealed.unit_of(globex) as uow:
            entry_of(uow)
        with sealed.jobs.open(SYSTEM_CALLER) as uow:
            assert uow.session.scalars(hash_chain._WAITING).all() == [globex.id, sealed.id]

    def test_seal_instant_is_not_before_that_of_the_previous_seal(self, sealed: Sealed, clock: MovableClock) -> None:
        clock.offset = timedelta(minutes=10)
        sealed.record()
        sealed.seal()
        clock.offset = timedelta()
        sealed.record()
        sealed.seal()
        chain = sealed.chain()
        assert chain[0].sealed_at <= chain[1].sealed_at
        assert [seal.late for seal in chain] == [False, False]

    def test_entry_that_waited_over_an_hour_is_sealed_as_late(self, sealed: Sealed, clock: MovableClock) -> None:
        sealed.record()
        clock.offset = LATE + timedelta(minutes=1)
        sealed.record()
        sealed.seal()
        assert [seal.late for seal in sealed.chain()] == [True, False]


class TestConcurrency:
    def test_uncommitted_entry_is_neither_sealed_nor_waited_for(self, sealed: Sealed) -> None:
        with sealed.open() as slow:
            early = entry_of(slow)
            quick = sealed.record()
            assert sealed.seal() == 1
        assert sealed.seal() == 1
        assert [seal.entry_id for seal in sealed.chain()] == [quick, early]

    def test_rolled_back_entry_leaves_no_gap_in_the_chain(self, sealed: Sealed) -> None:
        with sealed.open() as uow:
            entry_of(uow)
            uow.session.rollback()
        sealed.record()
        assert sealed.seal() == 1
        assert [seal.sequence for seal in sealed.chain()] == [1]

    def test_organization_is_sealed_by_one_sealer_without_the_other_waiting(self, sealed: Sealed) -> None:
        sealed.record()
        with sealed.jobs.open(SYSTEM_CALLER) as first:
            assert hash_chain._seal_batch(first, {sealed.id: ""}) == (1, {})
            assert sealed.seal() == 0
        assert len(sealed.chain()) == 1

    def test_other_sealer_seals_other_organizations_meanwhile(self, sealed: Sealed, globex: Organization) -> None:
        sealed.record()
        with sealed.unit_of(globex) as uow:
            entry_of(uow)
        with sealed.jobs.open(SYSTEM_CALLER) as first:
            hash_chain._seal_batch(first, {sealed.id: ""})
            assert sealed.seal() == 1
            assert [len(seals(sealed.session, each)) for each in (sealed.row, globex)] == [0, 1]

    @pytest.mark.check
    @pytest.mark.slow(5)
    def test_large_freeze_and_lift_do_not_wait_for_each_other(self, sealed: Sealed) -> None:
        factories.watched(sealed.session, sealed.row, "acme/other")
        sealed.session.commit()
        with sealed.open() as uow:
            scope = {"type": "repositories", "repositories": ["acme/other"]}
            lifted = start(uow, NewFreeze(scope, "Release under way"), max_targets=1).id
        installation = sealed.session.execute(text("SELECT min(id) FROM installations")).scalar_one()
        sealed.session.execute(text(THOUSANDS), {"organization": sealed.id, "installation": installation})
        sealed.session.execute(
            text("ANALYZE")
        )  # as autovacuum does: plans for the few rows before take minutes with these
        sealed.session.commit()
        many = {"type": "glob", "patterns": ["acme/many-*"]}
        with sealed.open() as large:
            wanted = NewFreeze(many, "Release under way", impact_acknowledged=True)
            start(large, wanted, max_targets=10_000)
            large.session.flush()
            with sealed.open() as small:
                small.session.execute(text("SET LOCAL lock_timeout = '50ms'"))
                end.lift(small, lifted, None)
            assert sealed.seal() == 2
        assert sealed.seal() == 1
        actions = select(AuditEntry.action).where(AuditEntry.id.in_([seal.entry_id for seal in sealed.chain()]))
        assert sorted(sealed.session.scalars(actions)) == ["freeze.lifted", "freeze.started", "freeze.started"]


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


def test_broken_chain_does_not_delay_others(sealed: Sealed, globex: Organization) -> None:
    entry = sealed.record()
    sealed.seal()
    with sealed.jobs.open(SYSTEM_CALLER) as uow:
        again = text("INSERT INTO audit_unsealed (entry_id, organization_id) VALUES (:entry, :organization)")
        uow.session.execute(again, {"entry": entry, "organization": sealed.id})
    seen = 0
    for _ in range(2):
        with sealed.unit_of(globex) as uow:
            entry_of(uow)
        seen += sealed.seal()
    assert (seen, len(seals(sealed.session, globex)), len(sealed.chain())) == (2, 2, 1)
