"""Proving the chain: whatever is done to entries or seals behind the service's back is named."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session

from app.commands.audit import main
from models.audit import AuditSeal
from models.organizations import Organization
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWorkFactory
from tests import factories
from tests.factories import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.services.audit.conftest import Record, entry_of, seals
from tests.services.conftest import UnitOfWorkOpener


@dataclass(frozen=True, slots=True)
class Chain:
    """Five sealed entries of acme, and the command that verifies them."""

    session: Session
    """The database's superuser, whom no right restricts."""
    acme: Organization
    jobs: UnitOfWorkFactory
    capsys: pytest.CaptureFixture[str]
    entries: list[str]

    def verify(self, *arguments: str) -> tuple[int, str]:
        status = main(["verify", *arguments])
        return status, self.capsys.readouterr().out

    def seals(self) -> list[AuditSeal]:
        return seals(self.session, self.acme)

    def tamper(self, statement: str, **values: Any) -> None:
        self.session.execute(text(statement), values)
        self.session.commit()


@pytest.fixture
def chain(
    database: str,
    redis_url: str,
    session: Session,
    acme: Organization,
    jobs: UnitOfWorkFactory,
    record: Record,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Chain:
    for name, value in (
        ("DATABASE_URL", make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)),
        ("REDIS_URL", redis_url),
        ("SECRET_KEY", SECRET_KEY),
    ):
        monkeypatch.setenv(name, value)
    made = [record(f"number {number}") for number in range(1, 6)]
    seal_entries(jobs)
    return Chain(session, acme, jobs, capsys, made)


class TestSoundChain:
    def test_sound_chain_is_reported_with_its_length_and_last_hash(self, chain: Chain) -> None:
        last = chain.seals()[-1].hash.hex()
        assert chain.verify() == (0, f"{chain.acme.slug} ({chain.acme.id}): valid, 5 sealed, the last one {last}\n")

    def test_verification_of_a_single_organization_takes_id_or_slug(self, chain: Chain, globex: Organization) -> None:
        for name in (chain.acme.id, chain.acme.slug):
            status, out = chain.verify(name)
            assert (status, out.count("\n"), chain.acme.id in out) == (0, 1, True)

    def test_verification_covers_all_organizations_by_default(self, chain: Chain, globex: Organization) -> None:
        status, out = chain.verify()
        assert (status, out.count("valid")) == (0, 2)

    def test_verification_of_an_unknown_organization_fails(self, chain: Chain) -> None:
        assert chain.verify("nobody") == (1, "")

    def test_recent_unsealed_entry_is_accepted(self, chain: Chain, record: Record) -> None:
        record()
        assert chain.verify()[0] == 0


class TestFindings:
    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("action", "'freeze.lifted'"),
            ("at", "at + interval '1 microsecond'"),
            ("actor", """'{"type": "user", "id": "usr_eve", "name": "Eve"}'"""),
            ("source", "'api'"),
            ("target", """target || '{"name": "another"}'"""),
            ("request_id", "'req_1'"),
            ("details", """'{"reason": "none"}'"""),
        ],
    )
    def test_changed_entry_is_reported(self, chain: Chain, column: str, value: str) -> None:
        chain.tamper(f"UPDATE audit_entries SET {column} = {value} WHERE id = :id", id=chain.entries[2])
        status, out = chain.verify()
        assert status == 1
        assert f"BROKEN: seal 3 of {chain.entries[2]} does not match its entry (2 before it are valid)" in out

    def test_deleted_entry_is_reported(self, chain: Chain) -> None:
        chain.tamper("DELETE FROM audit_entries WHERE id = :id", id=chain.entries[1])
        assert f"MISSING: the entry of seal 2 of {chain.entries[1]} is missing" in chain.verify()[1]

    def test_entry_deleted_with_its_seal_is_reported(self, chain: Chain) -> None:
        chain.tamper("DELETE FROM audit_entries WHERE id = :id", id=chain.entries[1])
        chain.tamper("DELETE FROM audit_seals WHERE entry_id = :id", id=chain.entries[1])
        status, out = chain.verify()
        assert status == 1
        assert f"MISSING: seal 2 is missing; seal 3 of {chain.entries[2]} comes next" in out

    def test_entry_deleted_with_its_seal_is_reported_after_renumbering(self, chain: Chain) -> None:
        chain.tamper("DELETE FROM audit_entries WHERE id = :id", id=chain.entries[1])
        chain.tamper("DELETE FROM audit_seals WHERE entry_id = :id", id=chain.entries[1])
        for number in (3, 4, 5):
            chain.tamper("UPDATE audit_seals SET sequence = :n - 1 WHERE sequence = :n", n=number)
        assert (
            f"BROKEN: seal 2 of {chain.entries[2]} does not contain the hash of the previous seal" in chain.verify()[1]
        )

    def test_swapped_entries_are_reported(self, chain: Chain) -> None:
        for old, new in (("2", "9"), ("3", "2"), ("9", "3")):
            chain.tamper(f"UPDATE audit_seals SET sequence = {new} WHERE sequence = {old}")
        assert f"BROKEN: seal 2 of {chain.entries[2]} does not contain" in chain.verify()[1]

    @pytest.mark.parametrize("column", ["action", "actor_id", "target_id", "source"])
    def test_seal_with_altered_filter_columns_is_reported(self, chain: Chain, column: str) -> None:
        chain.tamper(f"UPDATE audit_seals SET {column} = 'another' WHERE sequence = 4")
        assert (
            f"BROKEN: seal 4 of {chain.entries[3]} has filter columns that differ from the entry" in chain.verify()[1]
        )

    @pytest.mark.parametrize(
        "change",
        ["sealed_at = sealed_at + interval '1 minute'", "sealed_at = sealed_at - interval '8 days'", "late = NOT late"],
    )
    def test_seal_with_an_altered_instant_is_reported(self, chain: Chain, change: str) -> None:
        chain.tamper(f"UPDATE audit_seals SET {change} WHERE sequence = 3")
        status, out = chain.verify()
        assert status == 1
        assert "has an instant out of order" in out

    def test_entry_kept_from_its_seal_is_reported(self, chain: Chain, record: Record, clock: MovableClock) -> None:
        clock.offset = -timedelta(minutes=2)
        left = record()
        chain.tamper("DELETE FROM audit_unsealed")
        seal_entries(chain.jobs)
        status, out = chain.verify()
        assert status == 1
        assert f"UNSEALED: {left} of " in out

    def test_only_the_broken_chain_is_reported(
        self, chain: Chain, globex: Organization, unit_of: UnitOfWorkOpener
    ) -> None:
        with unit_of(globex) as uow:
            entry_of(uow)
        seal_entries(chain.jobs)
        chain.tamper("UPDATE audit_seals SET hash = 'x' WHERE entry_id = :id", id=chain.entries[4])
        status, out = chain.verify()
        assert status == 1
        assert f"{globex.slug} ({globex.id}): valid, 1 sealed" in out
        assert f"BROKEN: seal 5 of {chain.entries[4]}" in out


def test_organization_under_erasure_is_left_out_of_verification(chain: Chain) -> None:
    chain.acme.deleted_at = factories.now() - timedelta(days=31)
    chain.session.commit()
    assert chain.verify() == (0, "")


class TestKnownSeal:
    def test_known_seal_is_confirmed(self, chain: Chain) -> None:
        known = chain.seals()
        assert len(known) > 1
        for seal in known:
            assert chain.verify(chain.acme.slug, "--known", f"{seal.sequence}:{seal.hash.hex()}")[0] == 0

    def test_truncated_chain_is_reported_by_a_known_seal(self, chain: Chain) -> None:
        known = f"5:{chain.seals()[-1].hash.hex()}"
        chain.tamper("DELETE FROM audit_entries WHERE id = ANY(:ids)", ids=chain.entries[3:])
        chain.tamper("DELETE FROM audit_seals WHERE sequence > 3")
        assert chain.verify(chain.acme.slug)[0] == 0
        status, out = chain.verify(chain.acme.slug, "--known", known)
        assert status == 1
        assert "MISSING: the known seal 5 is missing: the chain ends with seal 3 (3 before it are valid)" in out

    def test_rewritten_chain_is_reported_by_a_known_seal(self, chain: Chain) -> None:
        status, out = chain.verify(chain.acme.slug, "--known", f"2:{'0' * 64}")
        assert status == 1
        assert f"BROKEN: seal 2 of {chain.entries[1]} differs from the known seal (1 before it are valid)" in out

    @pytest.mark.parametrize("arguments", [("acme", "--known", "2"), ("--known", f"2:{'0' * 64}")])
    def test_known_seal_requires_number_hash_and_organization(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["verify", *arguments])
        assert ended.value.code == 2
