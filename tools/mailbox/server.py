"""Serving a mailbox: SMTP for those who send, a page and JSON for those who look."""

import html
import json
import re
import ssl
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tools.mailbox.letters import Mailbox, ReceivedLetter
from tools.mailbox.protocol import Conversation

HOST = "127.0.0.1"
_STYLE = "body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap}"
_LINK = re.compile(r"https?://[^\s&]+(?:&amp;[^\s&]+)*")


class SmtpServer(ThreadingTCPServer):
    """Takes letters."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self, mailbox: Mailbox, port: int = 0, *, trust: ssl.SSLContext | None = None, tls_first: bool = False
    ) -> None:
        self.mailbox, self.trust, self.tls_first = mailbox, trust, tls_first
        super().__init__((HOST, port), Conversation)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go in the middle of a word."""


class PageServer(ThreadingHTTPServer):
    """Shows letters."""

    daemon_threads = True

    def __init__(self, mailbox: Mailbox, port: int = 0) -> None:
        self.mailbox = mailbox
        super().__init__((HOST, port), Pages)


class Pages(BaseHTTPRequestHandler):
    """`/` for people, `/mails.json` for programs, both with `?to=` for one address; the newest letter first."""

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        mailbox = cast("PageServer", self.server).mailbox
        wanted = parse_qs(parts.query).get("to")
        letters = (mailbox.to(wanted[0]) if wanted else list(mailbox.letters))[::-1]
        if parts.path == "/mails.json":
            self._send("application/json", json.dumps([letter.as_json() for letter in letters]))
        elif parts.path == "/":
            self._send("text/html; charset=utf-8", page(letters))
        else:
            self.send_error(404)

    def _send(self, kind: str, content: str) -> None:
        body = content.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives it
        """Keep quiet."""


def page(letters: list[ReceivedLetter]) -> str:
    """Return the page that shows letters, their links to be followed."""
    shown = "".join(_article(letter) for letter in letters) or "<p>No mail was sent yet.</p>"
    title = "Mail of the sandbox"
    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{title}</h1>{shown}</body></html>\n'


def _article(letter: ReceivedLetter) -> str:
    to, subject = html.escape(", ".join(letter.recipients)), html.escape(letter.subject)
    text = _LINK.sub(lambda found: f'<a href="{found[0]}">{found[0]}</a>', html.escape(letter.text))
    return f"<article><h2>{subject}</h2><p>To {to}, {letter.received_at}</p><pre>{text}</pre></article><hr>"


@dataclass(frozen=True, slots=True)
class Handle:
    """A mailbox that is being served."""

    mailbox: Mailbox
    smtp: SmtpServer
    pages: PageServer

    @property
    def smtp_port(self) -> int:
        """Where letters are taken."""
        return int(self.smtp.server_address[1])

    @property
    def smtp_url(self) -> str:
        """The same as `SMTP_URL` has it."""
        scheme = "smtp" if self.smtp.trust is None else "smtps" if self.smtp.tls_first else "smtp+starttls"
        return f"{scheme}://localhost:{self.smtp_port}"

    @property
    def url(self) -> str:
        """Where letters are shown."""
        return f"http://{HOST}:{self.pages.server_address[1]}"

    def stop(self) -> None:
        """End both servers."""
        self.mailbox.hang_up()
        for server in (self.smtp, self.pages):
            server.shutdown()
            server.server_close()


def serve(
    mailbox: Mailbox | None = None,
    *,
    smtp_port: int = 0,
    port: int = 0,
    trust: ssl.SSLContext | None = None,
    tls_first: bool = False,
) -> Handle:
    """Serve a mailbox on threads of this process; port 0 is any that is free."""
    box = mailbox or Mailbox()
    handle = Handle(box, SmtpServer(box, smtp_port, trust=trust, tls_first=tls_first), PageServer(box, port))
    for server in (handle.smtp, handle.pages):
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return handle
