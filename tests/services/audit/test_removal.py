"""Old entries leave the database after an export that verifies, and the chain begins behind them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session

from app.commands.audit import main
from models.audit import AuditEntry
from models.notifications import NotificationDestination
from models.organizations import Organization
from rules.audit.hash_chain import GENESIS, canonical_json, next_hash
from services.audit import removal
from services.audit.archive import Archive, ArchiveError, read_archive, write_archive
from services.audit.hash_chain import seal_entries
from services.audit.removal import remove_archived
from services.audit.verification import Verification, verify
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from tests.factories import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.services.audit.conftest import Record, seals

Lines = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AuditChain:
    """The chain of acme, its exports, and the removal of what they hold."""

    session: Session
    jobs: UnitOfWorkFactory
    acme: Organization
    clock: MovableClock
    record: Record
    directory: Path

    def back(self, days: int = 0) -> None:
        """Set the clock back by days, or to the present."""
        self.clock.offset = -timedelta(days=days)

    def seal(self) -> int:
        """Seal what is recorded."""
        return seal_entries(self.jobs)

    def export(self, name: str = "acme") -> Path:
        """Export what may be removed."""
        path = self.directory / f"{name}.jsonl"
        with self.jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            write_archive(uow, self.acme.id, path)
        return path

    def remove(self, file: Path) -> int:
        """Remove the entries of an export, and return how many rows were deleted."""
        return remove_archived(self.jobs, read_archive(file), by="grace")

    def verified(self) -> Verification:
        with self.jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            return verify(uow, self.acme.id, self.acme.slug)

    def left(self) -> tuple[int, int]:
        """Return the numbers of entries and seals in the database."""
        self.session.rollback()
        count = "SELECT (SELECT count(*) FROM audit_entries), (SELECT count(*) FROM audit_seals)"
        entries, sealed = self.session.execute(text(count)).one()
        return entries, sealed


@pytest.fixture
def chain(
    session: Session, jobs: UnitOfWorkFactory, acme: Organization, clock: MovableClock, record: Record, tmp_path: Path
) -> AuditChain:
    """Write and seal three entries 800 days ago, two 400 days ago, and one now."""
    chain = AuditChain(session, jobs, acme, clock, record, tmp_path)
    for days, number in ((800, 3), (400, 2), (0, 1)):
        chain.back(days)
        for each in range(number):
            record(f"{each} of {days} days ago")
        chain.seal()
    return chain


@pytest.fixture
def file(chain: AuditChain) -> Path:
    """Return an archive of the first five."""
    return chain.export()


class TestRemoval:
    def test_entries_that_plans_show_and_the_newest_are_not_exported(self, chain: AuditChain, file: Path) -> None:
        assert read_archive(file).last.sequence == 5
        chain.back(-4000)
        assert read_archive(chain.export("later")).last.sequence == 5
        chain.back(400)
        assert read_archive(chain.export("earlier")).last.sequence == 3
        chain.back(800)
        with pytest.raises(ArchiveError, match="No sealed entry is older than 365 days"):
            chain.export("nothing")
        with pytest.raises(ArchiveError, match="exists"):
            chain.export()

    def test_chain_begins_behind_the_removed_entries(self, chain: AuditChain, file: Path) -> None:
        assert chain.remove(file) == 5
        assert chain.left() == (2, 1), "the newest, and the entry about the removal"
        assert chain.seal() == 1
        chain.record()
        chain.seal()
        result = chain.verified()
        assert (result.errors, result.removed, result.sealed) == ((), 5, 8)
        assert [seal.sequence for seal in seals(chain.session, chain.acme)] == [6, 7, 8]

    def test_removal_is_audited_with_what_identifies_the_file(self, chain: AuditChain, file: Path) -> None:
        chain.remove(file)
        entry = chain.session.query(AuditEntry).filter_by(action="audit.entries_removed").one()
        archive = read_archive(file)
        assert (entry.organization_id, entry.actor["name"], entry.target["id"]) == (
            chain.acme.id,
            "grace",
            chain.acme.id,
        )
        digests = {"hash": archive.last.hash.hex(), "fileSha256": archive.digest.hex()}
        assert entry.details == {"first": 1, "last": 5, **digests}

    def test_removed_range_is_followed_by_the_next_one(self, chain: AuditChain) -> None:
        chain.back(400)
        chain.remove(chain.export("first"))
        chain.back()
        chain.seal()
        second = chain.export("second")
        assert read_archive(second).start == read_archive(chain.directory / "first.jsonl").last
        assert chain.remove(second) == 2
        assert (chain.verified().errors, chain.verified().removed) == ((), 5)

    def test_entries_sealed_during_the_removal_follow_the_chain(
        self, chain: AuditChain, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "BATCH_SIZE", 1)
        for _ in range(3):
            chain.record()
        at_once(lambda: chain.remove(file), chain.seal, chain.seal)
        chain.seal()
        assert (chain.verified().errors, chain.verified().sealed) == ((), 10)

    def test_removal_that_runs_twice_at_once_is_recorded_once(self, chain: AuditChain, file: Path) -> None:
        assert sum(at_once(lambda: chain.remove(file), lambda: chain.remove(file))) == 5
        assert chain.left() == (2, 1)


class TestCrash:
    @pytest.mark.parametrize("batches", [0, 1, 2])
    def test_removal_continues_after_a_crash_between_batches(
        self, chain: AuditChain, file: Path, monkeypatch: pytest.MonkeyPatch, batches: int
    ) -> None:
        monkeypatch.setattr(removal, "BATCH_SIZE", 2)
        with monkeypatch.context() as patched:
            patched.setattr(removal, "_delete_batch", failing_after(batches, removal._delete_batch))
            with pytest.raises(RuntimeError):
                chain.remove(file)
        assert chain.left() == (7 - 2 * batches, 6 - 2 * batches)
        chain.seal()
        assert chain.verified().errors == ()
        assert chain.remove(file) == 5 - 2 * batches
        assert chain.verified().errors == ()

    def test_crash_before_the_record_removes_nothing(
        self, chain: AuditChain, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(removal, "_AS_WORKER", text("SELECT 1 / 0"))
            with pytest.raises(Exception, match="division by zero"):
                chain.remove(file)
        assert chain.left() == (6, 6)
        assert chain.verified().removed == 0
        assert chain.remove(file) == 5

    def test_export_that_was_interrupted_is_no_file(self, chain: AuditChain, monkeypatch: pytest.MonkeyPatch) -> None:
        path = chain.directory / "acme.jsonl"
        with monkeypatch.context() as patched:
            patched.setattr("services.audit.archive.os.fsync", failing_after(0, lambda _: 0))
            with pytest.raises(RuntimeError):
                chain.export()
        assert not path.exists()
        assert chain.remove(chain.export()) == 5


def failing_after(calls: int, work: Callable[..., int]) -> Callable[..., int]:
    """Return a function that works so many times, and then fails."""
    left_over = iter(range(calls))

    def call(*given: Any) -> int:
        if next(left_over, None) is None:
            raise RuntimeError("killed")
        return work(*given)

    return call


def forge(lines: Lines) -> Lines:
    """Return lines whose hashes are right for their entries."""
    head, *middle, _ = lines
    previous = GENESIS
    for line in middle:
        line["entry"]["organizationId"] = head["organizationId"]
        previous = next_hash(previous, canonical_json(line["entry"]))
        line["seal"]["hash"] = previous.hex()
    return [head, *middle, {"end": middle[-1]["seal"]}]


def with_another_entry(lines: Lines) -> Lines:
    lines[2]["entry"]["details"] = {"reason": "none"}
    return lines


def of_another_organization(lines: Lines) -> Lines:
    lines[0]["organizationId"] = "org_1"
    return lines


def with_a_malformed_hash(lines: Lines) -> Lines:
    lines[2]["seal"]["hash"] = "x"
    return lines


class TestRefusals:
    def test_file_that_is_not_the_export_is_refused(self, chain: AuditChain, file: Path) -> None:
        cases: list[tuple[Callable[[Lines], Lines], str]] = [
            (with_another_entry, r"does not verify: seal 2 of aud_\w+ does not match its entry"),
            (of_another_organization, r"does not verify: seal 1 of aud_\w+ does not match its entry"),
            (lambda lines: [*lines[:3], *lines[4:]], "has a gap: seal 4 follows seal 2"),
            (lambda lines: lines[:-1], "was cut off after seal 5"),
            (lambda lines: lines[:1], "was cut off after seal 0"),
            (lambda lines: [*lines[:-2], lines[-1]], "does not end with seal 4"),
            (lambda lines: [*lines, lines[1]], "does not end with seal 5"),
            (with_a_malformed_hash, "is malformed"),
            (lambda lines: lines[1:], "is not an archive"),
            (lambda _: [], "is not an archive"),
            (lambda lines: forge(with_another_entry(lines)), "not of this database.*seal 5 of .* differs from"),
            (lambda lines: forge(of_another_organization(lines)), "not of this database: it has no organisation org_1"),
        ]
        exported = file.read_bytes().splitlines()
        for change, problem in cases:
            lines = change([json.loads(line) for line in exported])
            file.write_bytes(b"".join(canonical_json(line) + b"\n" for line in lines))
            with pytest.raises(ArchiveError, match=problem):
                chain.remove(file)
            assert chain.left() == (6, 6)

    def test_file_that_leaves_entries_out_is_refused(self, chain: AuditChain, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = chain.export("whole")
        chain.back(400)
        first = chain.export("first")
        with monkeypatch.context() as patched:
            patched.setattr(removal, "_delete_batch", lambda *_: 0)
            chain.remove(first)
        chain.back()
        with pytest.raises(ArchiveError, match="begins after seal 0, but the database after seal 3"):
            chain.remove(whole)
        second = chain.export("second")
        chain.session.execute(text("DELETE FROM audit_removals"))
        chain.session.commit()
        with pytest.raises(ArchiveError, match="begins after seal 3, but the database after seal 0"):
            chain.remove(second)
        assert chain.left() == (7, 6)

    def test_entries_that_plans_show_are_refused(self, chain: AuditChain, file: Path) -> None:
        chain.back(100)
        with pytest.raises(ArchiveError, match="entries that plans still show"):
            chain.remove(file)
        assert chain.left() == (6, 6)

    def test_chain_that_is_broken_is_neither_exported_nor_removed(self, chain: AuditChain, file: Path) -> None:
        chain.session.execute(text("UPDATE audit_entries SET action = 'freeze.lifted' WHERE details ->> 'x' IS NULL"))
        chain.session.commit()
        with pytest.raises(ArchiveError, match="or the chain is not valid: seal 1 of"):
            chain.remove(file)
        with pytest.raises(ArchiveError, match="does not verify: seal 1 of"):
            chain.export("broken")

    @pytest.mark.parametrize(("sequence", "is_due", "refused"), [(4, True, True), (4, False, False), (5, True, False)])
    def test_entries_that_a_destination_has_not_read_are_refused(
        self, chain: AuditChain, file: Path, sequence: int, *, is_due: bool, refused: bool
    ) -> None:
        chain.session.add(
            NotificationDestination(
                id="whk_1",
                organization_id=chain.acme.id,
                channel="webhook",
                sequence=sequence,
                remind_before=[],
                attempts=0,
            )
        )
        chain.session.execute(text("UPDATE notification_destinations SET due_at = NULL"))
        if is_due:
            chain.session.execute(text("UPDATE notification_destinations SET due_at = now() WHERE id = 'whk_1'"))
        chain.session.commit()
        if refused:
            with pytest.raises(ArchiveError, match="Destinations of notifications have not read these entries: whk_1"):
                chain.remove(file)
        else:
            assert chain.remove(file) == 5


class TestCommand:
    @pytest.fixture(autouse=True)
    def _environment(self, database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        url = make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)
        for name, value in (("DATABASE_URL", url), ("REDIS_URL", redis_url), ("SECRET_KEY", SECRET_KEY)):
            monkeypatch.setenv(name, value)

    def test_entries_are_exported_removed_and_the_rest_verified(
        self, chain: AuditChain, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = chain.directory / "acme.jsonl"
        assert main(["export", chain.acme.slug, str(path)]) == 0
        archive = read_archive(path)
        description = f"seals 1 to 5 of {chain.acme.id}, the last one {archive.last.hash.hex()}, SHA-256 of the file"
        assert capsys.readouterr().out == f"{path}: {description} {archive.digest.hex()}\n"
        assert main(["remove", str(path), "--by", "grace"]) == 0
        assert capsys.readouterr().out.startswith(f"5 entries were deleted. Keep {path}: {description}")
        assert main(["verify", chain.acme.slug, "--known", known(archive)]) == 0
        assert ": valid, 6 sealed (5 of them removed after an export), the last one" in capsys.readouterr().out
        assert main(["verify", chain.acme.slug, "--known", f"5:{'0' * 64}"]) == 1
        assert "BROKEN: seal 5, the last one removed, differs from the known seal" in capsys.readouterr().out
        assert main(["verify", chain.acme.slug, "--known", f"3:{'0' * 64}"]) == 1
        assert "MISSING: the known seal 3 left the database with an export, as all up to 5" in capsys.readouterr().out

    def test_removal_by_another_login_than_the_owner_is_refused(
        self,
        chain: AuditChain,
        file: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(removal, "_AS_OWNER", text("SET LOCAL ROLE change_freeze_worker"))
        assert main(["remove", str(file), "--by", "grace"]) == 1
        assert "Only the owner of the schema may remove entries: set DATABASE_OWNER_URL" in capsys.readouterr().err
        assert chain.left() == (6, 6)

    def test_file_that_cannot_be_read_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["remove", str(tmp_path / "nothing.jsonl"), "--by", "grace"]) == 1
        assert "No such file or directory" in capsys.readouterr().err


def known(archive: Archive) -> str:
    return f"{archive.last.sequence}:{archive.last.hash.hex()}"
