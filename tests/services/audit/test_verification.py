"""Proving the chain: whatever is done to entries or seals behind the service's back is named."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session

from app.commands.audit import main
from models.organizations import Organization
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWorkFactory
from tests import factories
from tests.factories import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.services.audit.conftest import Record, entry_of, seals
from tests.services.conftest import UnitOfWorkOpener

Entries = list[str]


@pytest.fixture
def entries(
    database: str, redis_url: str, jobs: UnitOfWorkFactory, record: Record, monkeypatch: pytest.MonkeyPatch
) -> Entries:
    """Write five entries of acme and seal them; the command works on the same database."""
    for name, value in (
        ("DATABASE_URL", make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)),
        ("REDIS_URL", redis_url),
        ("SECRET_KEY", SECRET_KEY),
    ):
        monkeypatch.setenv(name, value)
    made = [record(f"number {number}") for number in range(1, 6)]
    seal_entries(jobs)
    return made


@pytest.fixture
def tampering(session: Session) -> Iterator[Session]:
    """Open a session of the database's superuser, whom no right and no policy restricts."""
    session.execute(text("ALTER TABLE audit_entries NO FORCE ROW LEVEL SECURITY"))
    session.execute(text("ALTER TABLE audit_seals NO FORCE ROW LEVEL SECURITY"))
    session.commit()
    yield session
    session.rollback()
    session.execute(text("ALTER TABLE audit_entries FORCE ROW LEVEL SECURITY"))
    session.execute(text("ALTER TABLE audit_seals FORCE ROW LEVEL SECURITY"))
    session.commit()


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["verify", *arguments])
    return status, capsys.readouterr().out


class TestSoundChain:
    def test_sound_chain_is_reported_with_its_length_and_last_hash(
        self, entries: Entries, session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        last = seals(session, acme)[-1].hash.hex()
        assert verify(capsys) == (0, f"{acme.slug} ({acme.id}): valid, 5 sealed, the last one {last}\n")

    def test_verification_of_a_single_organization_takes_id_or_slug(
        self, entries: Entries, acme: Organization, globex: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in (acme.id, acme.slug):
            status, out = verify(capsys, name)
            assert (status, out.count("\n"), acme.id in out) == (0, 1, True)

    def test_verification_covers_all_organizations_by_default(
        self, entries: Entries, acme: Organization, globex: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, out = verify(capsys)
        assert (status, out.count("valid")) == (0, 2)

    def test_verification_of_an_unknown_organization_fails(
        self, entries: Entries, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert verify(capsys, "nobody") == (1, "")

    def test_recent_unsealed_entry_is_accepted(
        self, entries: Entries, record: Record, capsys: pytest.CaptureFixture[str]
    ) -> None:
        record()
        assert verify(capsys)[0] == 0


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
    def test_changed_entry_is_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str], column: str, value: str
    ) -> None:
        tampering.execute(text(f"UPDATE audit_entries SET {column} = {value} WHERE id = :id"), {"id": entries[2]})
        tampering.commit()
        status, out = verify(capsys)
        assert status == 1
        assert f"BROKEN: seal 3 of {entries[2]} does not match its entry (2 before it are valid)" in out

    def test_deleted_entry_is_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tampering.execute(text("DELETE FROM audit_entries WHERE id = :id"), {"id": entries[1]})
        tampering.commit()
        assert f"MISSING: the entry of seal 2 of {entries[1]} is missing" in verify(capsys)[1]

    def test_entry_deleted_with_its_seal_is_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tampering.execute(text("DELETE FROM audit_entries WHERE id = :id"), {"id": entries[1]})
        tampering.execute(text("DELETE FROM audit_seals WHERE entry_id = :id"), {"id": entries[1]})
        tampering.commit()
        status, out = verify(capsys)
        assert status == 1
        assert f"MISSING: seal 2 is missing; seal 3 of {entries[2]} comes next" in out

    def test_entry_deleted_with_its_seal_is_reported_after_renumbering(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tampering.execute(text("DELETE FROM audit_entries WHERE id = :id"), {"id": entries[1]})
        tampering.execute(text("DELETE FROM audit_seals WHERE entry_id = :id"), {"id": entries[1]})
        for number in (3, 4, 5):
            tampering.execute(text("UPDATE audit_seals SET sequence = :n - 1 WHERE sequence = :n"), {"n": number})
        tampering.commit()
        assert f"BROKEN: seal 2 of {entries[2]} does not contain the hash of the previous seal" in verify(capsys)[1]

    def test_swapped_entries_are_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for old, new in (("2", "9"), ("3", "2"), ("9", "3")):
            tampering.execute(text(f"UPDATE audit_seals SET sequence = {new} WHERE sequence = {old}"))
        tampering.commit()
        assert f"BROKEN: seal 2 of {entries[2]} does not contain" in verify(capsys)[1]

    @pytest.mark.parametrize("column", ["action", "actor_id", "target_id", "source"])
    def test_seal_with_altered_filter_columns_is_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str], column: str
    ) -> None:
        tampering.execute(text(f"UPDATE audit_seals SET {column} = 'another' WHERE sequence = 4"))
        tampering.commit()
        assert f"BROKEN: seal 4 of {entries[3]} has filter columns that differ from the entry" in verify(capsys)[1]

    @pytest.mark.parametrize(
        "change",
        ["sealed_at = sealed_at + interval '1 minute'", "sealed_at = sealed_at - interval '8 days'", "late = NOT late"],
    )
    def test_seal_with_an_altered_instant_is_reported(
        self, entries: Entries, tampering: Session, capsys: pytest.CaptureFixture[str], change: str
    ) -> None:
        tampering.execute(text(f"UPDATE audit_seals SET {change} WHERE sequence = 3"))
        tampering.commit()
        status, out = verify(capsys)
        assert status == 1
        assert "has an instant out of order" in out

    def test_entry_kept_from_its_seal_is_reported(
        self,
        entries: Entries,
        tampering: Session,
        record: Record,
        clock: MovableClock,
        jobs: UnitOfWorkFactory,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        clock.offset = -timedelta(minutes=2)
        left = record()
        tampering.execute(text("DELETE FROM audit_unsealed"))
        tampering.commit()
        seal_entries(jobs)
        status, out = verify(capsys)
        assert status == 1
        assert f"UNSEALED: {left} of " in out

    def test_only_the_broken_chain_is_reported(
        self,
        entries: Entries,
        tampering: Session,
        globex: Organization,
        unit_of: UnitOfWorkOpener,
        jobs: UnitOfWorkFactory,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with unit_of(globex) as uow:
            entry_of(uow)
        seal_entries(jobs)
        tampering.execute(text("UPDATE audit_seals SET hash = 'x' WHERE entry_id = :id"), {"id": entries[4]})
        tampering.commit()
        status, out = verify(capsys)
        assert status == 1
        assert f"{globex.slug} ({globex.id}): valid, 1 sealed" in out
        assert f"BROKEN: seal 5 of {entries[4]}" in out


def test_organization_under_erasure_is_left_out_of_verification(
    entries: Entries, session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    acme.deleted_at = factories.now() - timedelta(days=31)
    session.commit()
    assert verify(capsys) == (0, "")


class TestKnownSeal:
    def test_known_seal_is_confirmed(
        self, entries: Entries, session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        known = seals(session, acme)
        assert len(known) > 1
        for seal in known:
            assert verify(capsys, acme.slug, "--known", f"{seal.sequence}:{seal.hash.hex()}")[0] == 0

    def test_truncated_chain_is_reported_by_a_known_seal(
        self,
        entries: Entries,
        session: Session,
        tampering: Session,
        acme: Organization,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        known = f"5:{seals(session, acme)[-1].hash.hex()}"
        tampering.execute(text("DELETE FROM audit_entries WHERE id = ANY(:ids)"), {"ids": entries[3:]})
        tampering.execute(text("DELETE FROM audit_seals WHERE sequence > 3"))
        tampering.commit()
        assert verify(capsys, acme.slug)[0] == 0
        status, out = verify(capsys, acme.slug, "--known", known)
        assert status == 1
        assert "MISSING: the known seal 5 is missing: the chain ends with seal 3 (3 before it are valid)" in out

    def test_rewritten_chain_is_reported_by_a_known_seal(
        self, entries: Entries, acme: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, out = verify(capsys, acme.slug, "--known", f"2:{'0' * 64}")
        assert status == 1
        assert f"BROKEN: seal 2 of {entries[1]} differs from the known seal (1 before it are valid)" in out

    @pytest.mark.parametrize("arguments", [("acme", "--known", "2"), ("--known", f"2:{'0' * 64}")])
    def test_known_seal_requires_number_hash_and_organization(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["verify", *arguments])
        assert ended.value.code == 2
