"""The server's side of SMTP (RFC 5321), as much of it as our client and a person with telnet need."""

import base64
from collections.abc import Callable
from contextlib import suppress
from socketserver import StreamRequestHandler
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tools.mailbox.server import SmtpServer


class Conversation(StreamRequestHandler):
    """One connection."""

    sender = ""
    recipients: tuple[str, ...] = ()
    secured = False
    signed_in = False

    @property
    def home(self) -> "SmtpServer":
        """The server that this belongs to."""
        return cast("SmtpServer", self.server)

    def setup(self) -> None:
        """Begin with TLS where the port is for it."""
        if self.home.trust is not None and self.home.tls_first:
            self.request = self.home.trust.wrap_socket(self.request, server_side=True)
            self.home.mailbox.commands.append("TLS")
        super().setup()

    def handle(self) -> None:
        """Answer until the client goes."""
        if not self.answer("CONNECT", "220 mailbox.test ESMTP"):
            return
        commands: dict[str, Callable[[str], bool]] = {
            "EHLO": self.greet,
            "MAIL": self.take_sender,
            "RCPT": self.take_recipient,
            "DATA": self.take_letter,
            "AUTH": self.sign_in,
            "STARTTLS": self.secure,
        }
        while line := self.rfile.readline(4096):
            verb, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
            verb = verb.upper()
            self.home.mailbox.commands.append(verb)
            if self.home.mailbox.be_silent(verb):
                return
            if verb == "QUIT":
                self.answer(verb, "221 Bye")
                return
            if not commands.get(verb, self.nod)(rest):
                return

    def answer(self, verb: str, text: str) -> bool:
        """Say what is right, or what this mailbox was told to say; False when the connection shall end."""
        told = self.home.mailbox.replies[verb]
        text = told.popleft() if told else text
        if text:
            self.wfile.write(f"{text}\r\n".encode())
        return bool(text) and not text.startswith("421")

    def nod(self, _: str) -> bool:
        """Agree to whatever needs nothing to be done: HELO, NOOP, RSET, VRFY."""
        return self.answer("", "250 OK")

    def greet(self, _: str) -> bool:
        """Say what can be done."""
        able = ["mailbox.test", "SMTPUTF8", "8BITMIME"]
        if self.home.trust is not None and not self.secured and not self.home.tls_first:
            able.append("STARTTLS")
        if self.home.mailbox.password is not None:
            able.append("AUTH PLAIN")
        lines = [f"250-{each}" for each in able[:-1]] + [f"250 {able[-1]}"]
        return self.answer("EHLO", "\r\n".join(lines))

    def secure(self, _: str) -> bool:
        """Go on under TLS (RFC 3207)."""
        if self.home.trust is None:
            return self.answer("STARTTLS", "502 No TLS here")
        if not self.answer("STARTTLS", "220 Go ahead"):
            return False
        self.request = self.home.trust.wrap_socket(self.request, server_side=True)
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
        self.secured = True
        self.home.mailbox.commands.append("TLS")
        return True

    def sign_in(self, rest: str) -> bool:
        """Take `AUTH PLAIN` with its initial response (RFC 4616)."""
        _, name, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
        self.signed_in = (name, password) == self.home.mailbox.password
        return self.answer("AUTH", "235 Welcome" if self.signed_in else "535 5.7.8 Wrong")

    def take_sender(self, rest: str) -> bool:
        """Begin a letter."""
        if self.home.mailbox.password is not None and not self.signed_in:
            return self.answer("MAIL", "530 5.7.0 Sign in first")
        self.sender, self.recipients = _address(rest), ()
        return self.answer("MAIL", "250 OK")

    def take_recipient(self, rest: str) -> bool:
        """Address it."""
        self.recipients = (*self.recipients, _address(rest))
        return self.answer("RCPT", "250 OK")

    def take_letter(self, _: str) -> bool:
        """Take the letter itself, which ends with a line that holds a full stop."""
        told = self.home.mailbox.replies["DATA"]
        if told and not told[0].startswith("250"):
            return self.answer("DATA", "")
        self.wfile.write(b"354 Go ahead\r\n")
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        self.home.mailbox.take(self.sender, self.recipients, b"".join(lines))
        return self.answer("SENT", "250 Taken")

    def finish(self) -> None:
        """Close, whatever state TLS is in."""
        with suppress(OSError):
            super().finish()
        self.request.close()  # which is not the server's own once TLS has begun


def _address(rest: str) -> str:
    return rest.partition("<")[2].partition(">")[0]
