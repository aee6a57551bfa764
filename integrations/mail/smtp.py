"""Delivery by SMTP (RFC 5321) to the server in `SMTP_URL`, with one connection per mail.

`smtp://` is not encrypted, for a relay on the same machine; `smtp+starttls://` requires STARTTLS (RFC 3207); `smtps://`
uses TLS from the start (RFC 8314). Certificates are verified. Timeouts: 10 s per response, a minute in total.
"""

import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from socket import SHUT_RDWR
from threading import Timer
from urllib.parse import unquote, urlsplit

from integrations.mail.templates import RenderedMail
from integrations.spans import child_span

SCHEMES = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
"""Default port by scheme."""
SENDER_NAME = "Change-Freeze Service"
"""The name of a sender that is configured without one."""
ANSWER_TIMEOUT_SECONDS = 10.0
"""For one response of the server."""
SESSION_TIMEOUT_SECONDS = 60.0
"""For the whole connection."""
_ADDRESS = re.compile(r"""[^\s@<>()\[\]\\,;:"\x00-\x1f\x7f]+@[^\s@<>()\[\]\\,;:"\x00-\x1f\x7f]+""")
_UNAVAILABLE = 421
"""The code with which a server ends a connection (RFC 5321, 3.8)."""


class MailError(Exception):
    """A mail was not accepted; the message has the reason without any content of the mail."""


class RefusedError(MailError):
    """The mail is rejected permanently, for its recipient or its content."""


class DelayedError(MailError):
    """The mail is rejected temporarily; other mails may be accepted."""


class ServerError(MailError):
    """No mail can be sent now: the server is unavailable, or rejects our credentials."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Recipient and identity of a mail."""

    recipient: str
    id: str
    """The same for each attempt, so that recipients can detect duplicates."""
    written_at: datetime


class MailServer:
    """Sends mails through one server."""

    def __init__(self, url: str, sender: str, *, trust: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise ValueError(f"not the URL of a mail server: {parts.scheme}://…")
        self._scheme = parts.scheme
        self._host, self._port = parts.hostname, parts.port or SCHEMES[parts.scheme]
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        name, address = parseaddr(sender)
        self._sender = sender if name else f"{SENDER_NAME} <{address}>"
        self._domain = address.rpartition("@")[2]
        self._trust = trust

    def send(self, mail: RenderedMail, envelope: Envelope) -> None:
        """Send a mail. Raise RefusedError, DelayedError or ServerError."""
        message = self._message(mail, envelope)
        with child_span("mail", {"server.address": self._host}), self._connected() as server:
            try:
                server.send_message(message)
            except smtplib.SMTPSenderRefused as error:
                raise ServerError(f"the server rejects the sender address: {error.smtp_code}") from None
            except smtplib.SMTPRecipientsRefused as error:
                raise _refused(next(iter(error.recipients.values()))[0], "recipient") from None
            except smtplib.SMTPDataError as error:
                raise _refused(error.smtp_code, "content") from None
            except smtplib.SMTPNotSupportedError:
                raise RefusedError("the server does not support internationalized addresses (SMTPUTF8)") from None

    def check(self) -> None:
        """Raise ServerError unless the server accepts connections with our credentials."""
        with self._connected() as server:
            server.noop()

    def _message(self, mail: RenderedMail, envelope: Envelope) -> EmailMessage:
        message = EmailMessage(policy=SMTP)
        if not _ADDRESS.fullmatch(envelope.recipient):
            raise RefusedError("the recipient's address is malformed")
        name, _, domain = envelope.recipient.rpartition("@")
        message["To"] = Address(username=name, domain=domain)
        message["From"] = self._sender
        message["Subject"] = mail.subject
        message["Date"] = format_datetime(envelope.written_at)
        message["Message-ID"] = f"<{envelope.id}@{self._domain}>"
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
        message.set_content(mail.text)
        message.add_alternative(mail.html, subtype="html")
        return message

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        """Yield an authenticated connection; failures inside the context raise ServerError as well."""
        try:
            server = self._connect()
            ending = Timer(SESSION_TIMEOUT_SECONDS, _cut, (server,))
            ending.daemon = True
            ending.start()
            try:
                self._introduce(server)
                yield server
                with suppress(smtplib.SMTPException, OSError):
                    server.quit()
            finally:
                ending.cancel()
                server.close()
        except smtplib.SMTPResponseException as error:
            raise ServerError(f"the server rejected the session: {type(error).__name__} {error.smtp_code}") from None
        except (smtplib.SMTPException, OSError, ValueError) as error:  # ValueError: the socket was cut under TLS
            raise ServerError(f"the connection to the server failed: {type(error).__name__}") from None

    def _connect(self) -> smtplib.SMTP:
        name = self._domain or None
        if self._scheme == "smtps":
            return smtplib.SMTP_SSL(
                self._host, self._port, name, timeout=ANSWER_TIMEOUT_SECONDS, context=self._trust or _default_trust()
            )
        return smtplib.SMTP(self._host, self._port, name, timeout=ANSWER_TIMEOUT_SECONDS)

    def _introduce(self, server: smtplib.SMTP) -> None:
        if self._scheme == "smtp+starttls":
            server.starttls(context=self._trust or _default_trust())
        if self._user:
            server.login(self._user, self._password)


def _default_trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _refused(status: int, what: str) -> MailError:
    if status == _UNAVAILABLE:
        return ServerError(f"the server closed the connection: {status}")
    if status < 500:
        return DelayedError(f"the server temporarily rejected the {what}: {status}")
    return RefusedError(f"the server rejected the {what}: {status}")


def _cut(server: smtplib.SMTP) -> None:
    """Close a connection that another thread waits on."""
    with suppress(OSError):
        if server.sock is not None:
            server.sock.shutdown(SHUT_RDWR)
