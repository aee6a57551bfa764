"""The SMTP side of a mailbox: aiosmtpd on a thread of its own, with replies that a test can prescribe."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Thread
from typing import Any, AnyStr, NoReturn

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tools.mailbox.mails import Mailbox

HOST = "127.0.0.1"
SILENCE_INTERVAL = 0.02


class SmtpServer:
    """Receives mails. With `tls` it offers STARTTLS, or begins with TLS if `implicit_tls`."""

    def __init__(self, mailbox: Mailbox, port: int, *, tls: ssl.SSLContext | None, implicit_tls: bool) -> None:
        starttls = None if implicit_tls else tls
        self._loop = asyncio.new_event_loop()
        listening = self._loop.create_server(
            lambda: Connection(mailbox, starttls, self._loop), HOST, port, ssl=tls if implicit_tls else None
        )
        self._server = self._loop.run_until_complete(listening)
        self.port = int(self._server.sockets[0].getsockname()[1])
        scheme = "smtp" if tls is None else "smtps" if implicit_tls else "smtp+starttls"
        self.url = f"{scheme}://localhost:{self.port}"
        self._thread = Thread(target=self._loop.run_forever, name="smtp", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and close all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close in the next round of the loop


Command = Callable[["Connection", str | None], Coroutine[Any, Any, None]]


def _scripted(verb: str) -> Command:
    """Return aiosmtpd's method for a command, recorded in the mailbox and replaced by what the mailbox prescribes."""
    respond: Command = getattr(SMTP, f"smtp_{verb}")

    @wraps(respond)
    async def command(connection: "Connection", argument: str | None) -> None:
        """Note the command, and send the reply that a test has prescribed, or the usual one."""
        connection.mailbox.commands.append(verb)
        while connection.mailbox.silent_after == verb:  # noqa: ASYNC110 - another thread changes it
            await asyncio.sleep(SILENCE_INTERVAL)
        reply = connection.prescribed_reply(verb)
        if reply is None:
            await respond(connection, argument)
        else:
            await connection.push(reply)

    return command


class Connection(SMTP):
    """One connection."""

    def __init__(self, mailbox: Mailbox, starttls: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop) -> None:
        self.mailbox = mailbox
        self._greeted = False
        super().__init__(
            Handler(self),
            hostname="mailbox.test",
            ident="ESMTP",
            enable_SMTPUTF8=True,
            tls_context=starttls,
            authenticator=self._authenticate_client,
            auth_required=mailbox.password is not None,
            loop=loop,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record that TLS has started."""
        if transport.get_extra_info("ssl_object") is not None:
            self.mailbox.commands.append("TLS")
        super().connection_made(transport)

    async def push(self, status: AnyStr) -> None:
        """Send a line, or the reply that is prescribed instead of the greeting; 421 ends the connection."""
        line: str | bytes = status
        if not self._greeted:
            self._greeted = True
            line = self.prescribed_reply("CONNECT") or status
        data = line.encode() if isinstance(line, str) else line
        await super().push(data)
        if data.startswith(b"421"):
            self._hang_up()

    def prescribed_reply(self, verb: str) -> str | None:
        """Return the reply that the mailbox prescribes for a command, if any; an empty one ends the connection."""
        replies = self.mailbox.replies[verb]
        reply = replies.popleft() if replies else None
        if reply == "":
            self._hang_up()
        return reply

    def _hang_up(self) -> NoReturn:
        assert self.transport is not None
        self.transport.close()
        raise asyncio.CancelledError

    def _authenticate_client(self, *arguments: Any) -> AuthResult:
        """Compare the credentials, the last of aiosmtpd's arguments, with those of the mailbox."""
        given = arguments[-1]
        assert isinstance(given, LoginPassword)
        return AuthResult(
            success=(given.login.decode(), given.password.decode()) == self.mailbox.password, handled=False
        )


for _verb in ("EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA"):
    setattr(Connection, f"smtp_{_verb}", _scripted(_verb))


class Handler:
    """Stores the mails of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        """Store a mail and return the reply."""
        assert envelope.mail_from is not None
        assert isinstance(envelope.content, bytes)
        self._connection.mailbox.receive(envelope.mail_from, tuple(envelope.rcpt_tos), envelope.content)
        return self._connection.prescribed_reply("SENT") or "250 OK"
