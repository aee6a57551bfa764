"""A running mailbox: SMTP to receive mails, a page and JSON to show them."""

import html
import json
import re
import ssl
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tools.mailbox.mails import Mailbox, ReceivedMail
from tools.mailbox.smtp import HOST, SmtpServer

_STYLE = "body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap}"
_LINK = re.compile(r"https?://[^\s&]+(?:&amp;[^\s&]+)*")


class PageServer(ThreadingHTTPServer):
    """Shows mails."""

    daemon_threads = True

    def __init__(self, mailbox: Mailbox, port: int = 0) -> None:
        self.mailbox = mailbox
        super().__init__((HOST, port), Pages)


class Pages(BaseHTTPRequestHandler):
    """`/` for people, `/mails.json` for programs, both with `?to=` for one address; the newest mail first."""

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        mailbox = cast("PageServer", self.server).mailbox
        wanted = parse_qs(parts.query).get("to")
        mails = (mailbox.to(wanted[0]) if wanted else list(mailbox.mails))[::-1]
        if parts.path == "/mails.json":
            self._send("application/json", json.dumps([mail.as_json() for mail in mails]))
        elif parts.path == "/":
            self._send("text/html; charset=utf-8", page(mails))
        else:
            self.send_error(404)

    def _send(self, kind: str, content: str) -> None:
        body = content.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Do not log."""


def page(mails: list[ReceivedMail]) -> str:
    """Return the page that shows mails, with their links."""
    shown = "".join(_article(mail) for mail in mails) or "<p>No mail was sent yet.</p>"
    title = "Mail of the sandbox"
    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{title}</h1>{shown}</body></html>\n'


def _article(mail: ReceivedMail) -> str:
    to, subject = html.escape(", ".join(mail.recipients)), html.escape(mail.subject)
    text = _LINK.sub(lambda found: f'<a href="{found[0]}">{found[0]}</a>', html.escape(mail.text))
    return f"<article><h2>{subject}</h2><p>To {to}, {mail.received_at}</p><pre>{text}</pre></article><hr>"


@dataclass(frozen=True, slots=True)
class Handle:
    """A mailbox and its running servers."""

    mailbox: Mailbox
    smtp: SmtpServer
    pages: PageServer

    @property
    def smtp_port(self) -> int:
        """Return the port that receives mails."""
        return self.smtp.port

    @property
    def smtp_url(self) -> str:
        """Return the address as `SMTP_URL` has it."""
        return self.smtp.url

    @property
    def url(self) -> str:
        """Return the address that shows mails."""
        return f"http://{HOST}:{self.pages.server_address[1]}"

    def stop(self) -> None:
        """Stop both servers."""
        self.smtp.stop()
        self.pages.shutdown()
        self.pages.server_close()


def serve(
    mailbox: Mailbox | None = None,
    *,
    smtp_port: int = 0,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    implicit_tls: bool = False,
) -> Handle:
    """Serve a mailbox on threads of this process; port 0 takes any free one."""
    box = mailbox or Mailbox()
    handle = Handle(box, SmtpServer(box, smtp_port, tls=tls, implicit_tls=implicit_tls), PageServer(box, port))
    Thread(target=handle.pages.serve_forever, args=(0.05,), daemon=True).start()
    return handle
