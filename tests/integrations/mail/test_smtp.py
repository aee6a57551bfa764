"""Delivery by SMTP: what the server receives, encryption, and how its replies are classified."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from integrations.mail import smtp
from integrations.mail.smtp import DelayedError, Envelope, MailError, MailServer, RefusedError, ServerError
from integrations.mail.templates import RenderedMail
from tests.harness.certificates import Certified
from tests.harness.mail import SENDER, mail_server, mailbox
from tools.mailbox import Handle

MAIL = RenderedMail("Grüße", "Read this:\nhttps://example.com/?token=1&a=b\n\n.\nEnd\n", "<p>Read <b>this</b></p>")
ENVELOPE = Envelope("ada@example.com", "mal_1", datetime(2026, 11, 21, 17, 0, tzinfo=UTC))


@pytest.fixture
def box() -> Iterator[Handle]:
    with mailbox() as handle:
        yield handle


def failing(server: MailServer, envelope: Envelope = ENVELOPE) -> MailError:
    with pytest.raises(MailError) as caught:
        server.send(MAIL, envelope)
    return caught.value


class TestMail:
    def test_mail_arrives_as_written(self, box: Handle) -> None:
        mail_server(box).send(MAIL, ENVELOPE)
        [mail] = box.mailbox.mails
        assert (mail.subject, mail.text, mail.html.strip()) == (MAIL.subject, MAIL.text, MAIL.html)
        assert mail.links == ["https://example.com/?token=1&a=b"]
        assert (mail.sender, mail.recipients) == ("freezes@example.com", ("ada@example.com",))

    def test_mail_has_sender_date_and_auto_submitted_headers(self, box: Handle) -> None:
        mail_server(box).send(MAIL, ENVELOPE)
        headers = box.mailbox.mails[0].headers
        assert headers["From"] == SENDER
        assert headers["To"] == "ada@example.com"
        assert headers["Date"] == "Sat, 21 Nov 2026 17:00:00 +0000"
        assert headers["Message-ID"] == "<mal_1@example.com>"
        assert headers["Auto-Submitted"] == "auto-generated"

    @pytest.mark.parametrize(
        ("sender", "shown"),
        [
            ("freezes@example.com", "Change-Freeze Service <freezes@example.com>"),
            ("<freezes@example.com>", "Change-Freeze Service <freezes@example.com>"),
            ("Release desk <freezes@example.com>", "Release desk <freezes@example.com>"),
            ("grüße@example.com", "Change-Freeze Service <grüße@example.com>"),
        ],
    )
    def test_mail_has_a_sender_with_a_name(self, box: Handle, sender: str, shown: str) -> None:
        MailServer(box.smtp_url, sender).send(MAIL, ENVELOPE)
        assert box.mailbox.mails[0].headers["From"] == shown

    def test_mail_sent_twice_has_the_same_message_id(self, box: Handle) -> None:
        for _ in range(2):
            mail_server(box).send(MAIL, ENVELOPE)
        assert len({mail.headers["Message-ID"] for mail in box.mailbox.mails}) == 1

    def test_mail_reaches_an_address_outside_ascii(self, box: Handle) -> None:
        mail_server(box).send(MAIL, Envelope("zoë@example.com", "mal_1", ENVELOPE.written_at))
        assert box.mailbox.mails[0].recipients == ("zoë@example.com",)

    @pytest.mark.parametrize(
        "address", ["", "nobody", "a@b\r\nBcc: eve@example.com", "a@b, eve@example.com", "a@b> <eve@example.com"]
    )
    def test_mail_to_an_invalid_address_is_refused(self, box: Handle, address: str) -> None:
        assert isinstance(failing(mail_server(box), Envelope(address, "mal_1", ENVELOPE.written_at)), RefusedError)
        assert box.mailbox.mails == []


class TestTls:
    def test_starttls_precedes_authentication(self, tls: Certified) -> None:
        with mailbox(tls) as box:
            box.mailbox.password = ("ada", "secret")
            url = box.smtp_url.replace("://", "://ada:secret@")
            MailServer(url, SENDER, trust=tls.client).send(MAIL, ENVELOPE)
            assert box.mailbox.commands.index("TLS") < box.mailbox.commands.index("AUTH")
            assert len(box.mailbox.mails) == 1

    def test_mail_is_not_sent_when_the_server_lacks_starttls(self, box: Handle, tls: Certified) -> None:
        server = MailServer(box.smtp_url.replace("smtp://", "smtp+starttls://"), SENDER, trust=tls.client)
        assert isinstance(failing(server), ServerError)
        assert "MAIL" not in box.mailbox.commands

    def test_smtps_begins_with_tls(self, tls: Certified) -> None:
        with mailbox(tls, tls_first=True) as box:
            mail_server(box, tls).send(MAIL, ENVELOPE)
            assert box.mailbox.commands[0] == "TLS"
            assert len(box.mailbox.mails) == 1

    @pytest.mark.parametrize("tls_first", [True, False])
    def test_server_with_an_untrusted_certificate_receives_no_mail(self, tls: Certified, *, tls_first: bool) -> None:
        with mailbox(tls, tls_first=tls_first) as box:
            server = MailServer(box.smtp_url, SENDER, trust=ssl.create_default_context())
            assert isinstance(failing(server), ServerError)
            assert box.mailbox.mails == []


class TestReplies:
    @pytest.mark.parametrize(
        ("command", "answer", "error"),
        [
            ("CONNECT", "554 No service", ServerError),
            ("CONNECT", "421 Too busy", ServerError),
            ("CONNECT", "", ServerError),
            ("EHLO", "", ServerError),
            ("MAIL", "550 Sender rejected", ServerError),
            ("MAIL", "451 Not now", ServerError),
            ("RCPT", "550 5.1.1 No such person", RefusedError),
            ("RCPT", "450 4.2.0 Greylisted", DelayedError),
            ("RCPT", "421 Shutting down", ServerError),
            ("DATA", "554 5.7.1 Spam", RefusedError),
            ("DATA", "452 Full", DelayedError),
            ("DATA", "", ServerError),
            ("SENT", "554 5.7.1 Spam after all", RefusedError),
            ("SENT", "451 4.3.0 Try again", DelayedError),
            ("SENT", "", ServerError),
        ],
    )
    def test_permanent_and_transient_smtp_replies_are_distinguished(
        self, box: Handle, command: str, answer: str, error: type[MailError]
    ) -> None:
        box.mailbox.replies[command].append(answer)
        assert type(failing(mail_server(box))) is error

    def test_wrong_password_is_an_error_of_the_server(self, tls: Certified) -> None:
        with mailbox(tls) as box:
            box.mailbox.password = ("ada", "secret")
            url = box.smtp_url.replace("://", "://ada:wrong@")
            assert isinstance(failing(MailServer(url, SENDER, trust=tls.client)), ServerError)

    def test_smtp_error_omits_the_text_of_the_server(self, box: Handle) -> None:
        box.mailbox.replies["RCPT"].append("550 ada@example.com wants no token=1")
        error = str(failing(mail_server(box)))
        assert "550" in error
        assert "ada" not in error
        assert "token" not in error

    def test_refused_smtp_connection_is_an_error_of_the_server(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"smtp://127.0.0.1:{unused.getsockname()[1]}"
        assert isinstance(failing(MailServer(url, SENDER)), ServerError)

    def test_mail_server_check_passes_only_when_the_server_responds(self, box: Handle) -> None:
        mail_server(box).check()
        box.mailbox.replies["CONNECT"].append("554 No service")
        with pytest.raises(ServerError):
            mail_server(box).check()


class TestTimeouts:
    """The servers are silent for ever, so that a test ends by the timeout that it sets, or never."""

    @pytest.fixture(autouse=True)
    def no_timeouts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(smtp, "ANSWER_TIMEOUT_SECONDS", 1e6)
        monkeypatch.setattr(smtp, "SESSION_TIMEOUT_SECONDS", 1e6)

    def test_mail_fails_when_a_reply_times_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(smtp, "ANSWER_TIMEOUT_SECONDS", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"smtp://127.0.0.1:{silent.getsockname()[1]}"
            assert isinstance(failing(MailServer(url, SENDER)), ServerError)

    @pytest.mark.parametrize("secure", [True, False])
    def test_mail_fails_when_the_whole_session_times_out(
        self, tls: Certified, monkeypatch: pytest.MonkeyPatch, *, secure: bool
    ) -> None:
        monkeypatch.setattr(smtp, "SESSION_TIMEOUT_SECONDS", 0.3)
        with mailbox(tls if secure else None, tls_first=secure) as box:
            box.mailbox.silent_after = "MAIL"
            assert isinstance(failing(mail_server(box, tls)), ServerError)


@pytest.mark.parametrize("url", ["http://mail.test", "smtp://", "mail.test:25"])
def test_invalid_address_of_a_mail_server_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="not the URL of a mail server"):
        MailServer(url, SENDER)
