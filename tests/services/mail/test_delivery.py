"""The outbox and its delivery: a mail is committed with the change that it reports, and is sent once."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.database import IDENTITY_ROLE, WORKER_ROLE
from integrations.mail.smtp import MailServer
from jobs import background_thread, context, registry
from jobs.context import Context
from rules.access.permissions import ANONYMOUS
from services.core.encryption import DecryptionError, decrypt, encrypt
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.mail import delivery
from services.mail.delivery import MAILS, send_due
from services.mail.outbox import enqueue_mail
from services.maintenance.retention import purge_expired
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.mail import mail_server
from tests.harness.wakeups import RecordedWakeups
from tools.mailbox import Handle

ADA, EVE = "ada@example.com", "eve@example.com"
URL = "https://web.test/verify?token=a-secret-of-the-mail"
ANYBODY = Caller(None, ANONYMOUS, "dashboard")


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups, box: Handle) -> UnitOfWorkFactory:
    around = Ports(SecretKey(b"a secret of the tests"), mail_server(box))
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, around)


def half_done(people: UnitOfWorkFactory) -> None:
    with people.open(ANYBODY) as uow:
        enqueue_mail(uow, ADA, "verify_email", url=URL)
        enqueue_mail(uow, ADA, "advertisement")


def drained(jobs: UnitOfWorkFactory) -> None:
    while send_due(jobs):
        pass


def elsewhere(jobs: UnitOfWorkFactory, ports: Ports) -> UnitOfWorkFactory:
    """Return the units of a process with other ports."""
    return UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, ports)


@dataclass(frozen=True, slots=True)
class Outbox:
    """Mails that wait, the workers that send them, and the mailbox that receives them."""

    people: UnitOfWorkFactory
    """Units of the web origin."""
    jobs: UnitOfWorkFactory
    """Units of a worker."""
    session: Session
    box: Handle
    clock: MovableClock

    def write(self, *recipients: str) -> None:
        with self.people.open(ANYBODY) as uow:
            for recipient in recipients or (ADA,):
                enqueue_mail(uow, recipient, "verify_email", url=URL)

    def drain(self) -> None:
        drained(self.jobs)

    def rows(self) -> list[Any]:
        self.session.rollback()
        query = (
            "SELECT recipient, due_at, lease_until, encrypted_values, sent_at, last_error_message, attempts "
            "FROM mails ORDER BY id"
        )
        return list(self.session.execute(text(query)).all())

    def change(self, statement: str, **values: Any) -> None:
        self.session.execute(text(statement), values)
        self.session.commit()


@pytest.fixture
def outbox(database: str, jobs: UnitOfWorkFactory, session: Session, box: Handle, clock: MovableClock) -> Outbox:
    people = UnitOfWorkFactory(engine_of(database, IDENTITY_ROLE), clock, jobs.wakeups, jobs.ports)
    return Outbox(people, jobs, session, box, clock)


class TestPosting:
    def test_mail_is_queued_in_the_transaction_of_its_change(self, outbox: Outbox, wakeups: RecordedWakeups) -> None:
        with pytest.raises(ValueError, match="advertisement"):
            half_done(outbox.people)
        assert outbox.rows() == []
        assert wakeups.sent == []
        outbox.write()
        assert wakeups.sent == ["mail"]

    @pytest.mark.parametrize("values", [{}, {"url": URL, "name": "Ada"}, {"link": URL}])
    def test_mail_requires_exactly_the_fields_of_its_template(self, outbox: Outbox, values: dict[str, str]) -> None:
        with outbox.people.open(ANYBODY) as uow, pytest.raises(ValueError, match="no mail template 'verify_email'"):
            enqueue_mail(uow, ADA, "verify_email", **values)

    def test_mail_of_an_unknown_template_is_rejected(self, outbox: Outbox) -> None:
        with outbox.people.open(ANYBODY) as uow, pytest.raises(ValueError, match="no mail template 'advertisement'"):
            enqueue_mail(uow, ADA, "advertisement", url=URL)

    def test_mail_of_an_organization_has_readable_instants(
        self, outbox: Outbox, uow_factory: UnitOfWorkFactory, engine: Engine
    ) -> None:
        acme = factories.organization(outbox.session)
        outbox.session.commit()
        inside = elsewhere(outbox.jobs, outbox.jobs.ports)
        inside.engine = engine
        with inside.open(Caller(acme.id, ANONYMOUS, "dashboard")) as uow:
            values = {"organization": "Acme", "inviter": "Ada", "role": "member", "url": URL}
            enqueue_mail(uow, EVE, "invitation", **values, expires_at=uow.now.replace(2026, 12, 1, 9, 5))
        outbox.drain()
        [mail] = outbox.box.mailbox.to(EVE)
        assert "expires on 1 December 2026, 09:05 UTC." in mail.text


class TestSending:
    def test_sent_mail_is_erased(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.drain()
        [mail] = outbox.box.mailbox.to(ADA)
        assert mail.links == [URL]
        [row] = outbox.rows()
        assert (row.due_at, row.lease_until, row.encrypted_values, row.last_error_message) == (None, None, None, None)
        assert row.sent_at is not None

    def test_concurrent_workers_send_each_mail_once(self, outbox: Outbox) -> None:
        outbox.write(*[f"ada-{number}@example.com" for number in range(8)])
        at_once(*[outbox.drain] * 4)
        assert len(outbox.box.mailbox.mails) == len({mail.recipients for mail in outbox.box.mailbox.mails}) == 8

    def test_mail_of_a_dead_worker_is_sent_when_its_lease_expires(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outbox.write()
        with monkeypatch.context() as patched:
            patched.setattr(delivery, "_send", _die)
            with pytest.raises(SystemExit):
                send_due(outbox.jobs)
        outbox.drain()
        assert outbox.box.mailbox.mails == []
        outbox.clock.offset += MAILS.lease
        outbox.drain()
        assert len(outbox.box.mailbox.mails) == 1

    def test_mail_sent_but_not_recorded_is_resent_with_its_message_id(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.change(
            "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
            "CREATE TRIGGER lost BEFORE UPDATE ON mails FOR EACH ROW "
            "WHEN (NEW.due_at IS NULL OR NEW.sent_at IS NOT NULL) EXECUTE FUNCTION lose()"
        )
        try:
            outbox.drain()
        finally:
            outbox.change("DROP FUNCTION lose() CASCADE")
        outbox.clock.offset += MAILS.lease
        outbox.drain()
        first, second = outbox.box.mailbox.to(ADA)
        assert first.headers["Message-ID"] == second.headers["Message-ID"]
        assert outbox.rows()[0].sent_at is not None

    def test_worker_that_lost_its_lease_records_nothing(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.box.mailbox.replies["RCPT"].append("550 Unknown")
        original = MailServer.send

        def slow(server: MailServer, *mail: Any) -> None:
            outbox.clock.offset += MAILS.lease
            outbox.change("UPDATE mails SET lease_token = 'other', lease_until = lease_until + interval '1 hour'")
            original(server, *mail)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(MailServer, "send", slow)
            send_due(outbox.jobs)
        assert outbox.rows()[0].encrypted_values is not None


def _die(*_: Any) -> bool:
    raise SystemExit


class TestFailures:
    def test_temporarily_refused_mail_is_retried_without_delaying_others(self, outbox: Outbox) -> None:
        outbox.write(ADA, EVE)
        outbox.box.mailbox.replies["RCPT"].append("450 Greylisted")
        outbox.drain()
        assert len(outbox.box.mailbox.mails) == 1
        outbox.clock.offset += timedelta(seconds=31)
        outbox.drain()
        assert len(outbox.box.mailbox.to(ADA)) == len(outbox.box.mailbox.to(EVE)) == 1

    def test_permanently_refused_mail_is_abandoned_and_erased(
        self, outbox: Outbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        outbox.write()
        outbox.box.mailbox.replies["RCPT"].append(f"550 {ADA} is unknown, {URL}")
        outbox.drain()
        [row] = outbox.rows()
        assert (row.due_at, row.encrypted_values, row.sent_at) == (None, None, None)
        assert row.last_error_message == "the server rejected the recipient: 550"
        assert "is given up" in caplog.text
        assert ADA not in caplog.text
        assert "a-secret" not in caplog.text

    def test_all_mails_wait_when_the_server_is_unavailable(self, outbox: Outbox) -> None:
        outbox.write(ADA, EVE, "joe@example.com")
        outbox.box.mailbox.replies["CONNECT"] += ["421 Busy", "421 Busy"]
        outbox.drain()
        assert [row.attempts for row in outbox.rows()] == [1, 0, 0]
        outbox.clock.offset += timedelta(seconds=31)
        outbox.drain()
        assert sum(row.attempts for row in outbox.rows()) == 2
        outbox.clock.offset += timedelta(minutes=3)
        outbox.drain()
        assert len(outbox.box.mailbox.mails) == 3

    def test_expired_mail_is_abandoned(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.clock.offset += timedelta(hours=24)
        outbox.drain()
        assert outbox.box.mailbox.mails == []
        assert (outbox.rows()[0].encrypted_values, outbox.rows()[0].due_at) == (None, None)

    def test_mail_encrypted_with_another_secret_is_abandoned(
        self, outbox: Outbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        outbox.write()
        drained(elsewhere(outbox.jobs, outbox.jobs.ports.having(SecretKey(b"another secret"))))
        assert outbox.box.mailbox.mails == []
        assert outbox.rows()[0].encrypted_values is None
        assert "another SECRET_KEY" in caplog.text

    def test_mail_waits_without_a_mail_server(self, outbox: Outbox) -> None:
        outbox.write()
        without = elsewhere(outbox.jobs, outbox.jobs.ports.without(MailServer))
        assert not send_due(without)
        assert "mail" not in registry.jobs_with_work(without)
        assert outbox.rows()[0].due_at is not None
        assert "mail" in registry.jobs_with_work(outbox.jobs)
        outbox.drain()
        assert len(outbox.box.mailbox.mails) == 1

    def test_mail_with_an_altered_recipient_is_not_sent(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.change("UPDATE mails SET recipient = :eve", eve=EVE)
        outbox.drain()
        assert outbox.box.mailbox.mails == []


class TestSealing:
    def test_ciphertext_is_bound_to_secret_use_and_row(self) -> None:
        encrypted = encrypt(b"secret", "mails", "mal_1", b"hello")
        assert decrypt(b"secret", "mails", "mal_1", encrypted) == b"hello"
        changed = encrypted[:-1] + bytes([encrypted[-1] ^ 1])
        for arguments in (
            (b"other", "mails", "mal_1", encrypted),
            (b"secret", "other", "mal_1", encrypted),
            (b"secret", "mails", "mal_2", encrypted),
            (b"secret", "mails", "mal_1", changed),
            (b"secret", "mails", "mal_1", b""),
            (b"secret", "mails", "mal_1", b"\x01short"),
            (b"secret", "mails", "mal_1", b"\x02" + encrypted[1:]),
        ):
            with pytest.raises(DecryptionError):
                decrypt(*arguments)

    def test_ciphertext_differs_for_each_encryption(self) -> None:
        assert encrypt(b"secret", "mails", "mal_1", b"hello") != encrypt(b"secret", "mails", "mal_1", b"hello")


class TestJob:
    @pytest.fixture
    def running(self, jobs: UnitOfWorkFactory) -> Iterator[None]:
        """Give the process a context; what works aside is over when this ends."""
        context.set_context(Context(jobs, None, None, lambda _name: None))  # type: ignore[arg-type]
        yield
        background_thread.run_in_background("mail", lambda: False)[0].join(10)
        context._contexts.clear()

    @pytest.mark.usefixtures("running")
    def test_mail_job_sends_on_a_background_thread(self, outbox: Outbox) -> None:
        outbox.write(ADA, EVE)
        registry.run("mail")
        assert len(outbox.box.mailbox.wait_for(ADA)) == len(outbox.box.mailbox.wait_for(EVE)) == 1

    @pytest.mark.usefixtures("running")
    def test_unresponsive_mail_server_does_not_block_the_job(self, outbox: Outbox) -> None:
        outbox.write()
        outbox.box.mailbox.silent_after = "EHLO"
        [first] = background_thread.run_in_background("mail", lambda: False)
        first.join(10)
        registry.run("mail")
        registry.run("mail")
        [running] = background_thread.run_in_background("mail", lambda: False)
        assert running.is_alive()
        outbox.box.mailbox.silent_after = ""
        running.join(10)
        assert not running.is_alive()

    def test_failed_background_run_does_not_prevent_the_next(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail() -> bool:
            raise LookupError("a fault")

        background_thread.run_in_background("faulty", fail)[0].join(10)
        assert "faulty failed and will be retried" in caplog.text
        steps = iter([True, False])
        background_thread.run_in_background("faulty", lambda: next(steps))[0].join(10)
        assert list(steps) == []


def test_old_mails_are_purged(outbox: Outbox) -> None:
    outbox.write()
    purge_expired(outbox.jobs)
    assert len(outbox.rows()) == 1
    outbox.clock.offset += timedelta(days=31)
    purge_expired(outbox.jobs)
    assert outbox.rows() == []
