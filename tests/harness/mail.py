"""A mail server for tests, over real sockets."""

from collections.abc import Iterator
from contextlib import contextmanager

from integrations.mail.smtp import MailServer
from tests.harness.certificates import Certified
from tools.mailbox import Handle, Mailbox, serve

SENDER = "Change-Freeze Service <freezes@example.com>"


@contextmanager
def mailbox(tls: Certified | None = None, *, tls_first: bool = False) -> Iterator[Handle]:
    """Serve an empty mailbox."""
    handle = serve(Mailbox(), tls=tls.server if tls else None, implicit_tls=tls_first)
    yield handle
    handle.stop()


def mail_server(handle: Handle, tls: Certified | None = None) -> MailServer:
    """Return a client of a mailbox."""
    return MailServer(handle.smtp_url, SENDER, trust=tls.client if tls else None)
