"""HTTP/1.1 for httpx over plain sockets: httptools parses a response in a fraction of the time that h11 takes."""

import select
import socket
from contextlib import suppress

import httptools
import httpx

CHUNK = 65_536


class _Response:
    """What httptools finds in a response."""

    def __init__(self, method: str) -> None:
        self._has_body = method != "HEAD"
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.complete = False

    def on_status(self, reason: bytes) -> None:
        self.reason = reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.complete = not self._has_body

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.complete = True


class SocketTransport(httpx.BaseTransport):
    """Sends each request on an idle connection, or on a new one; several threads may use it."""

    def __init__(self) -> None:
        self._idle: list[socket.socket] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the whole response; raise as httpx's own transport does."""
        connection = self._take(request)
        response = _Response(request.method)
        parser = httptools.HttpResponseParser(response)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # the response may have come before the body's end
                connection.sendall(_encoded(request))
            while not response.complete and (data := connection.recv(CHUNK)):
                parser.feed_data(data)
        except TimeoutError as error:
            raise httpx.ReadTimeout("The server does not answer.", request=request) from error
        except OSError as error:
            raise httpx.ReadError(str(error), request=request) from error
        finally:
            if response.complete and parser.should_keep_alive():
                self._idle.append(connection)
            else:
                connection.close()
        if not response.complete:
            raise httpx.RemoteProtocolError("The server disconnected.", request=request)
        return httpx.Response(
            parser.get_status_code(),
            headers=response.headers,
            stream=httpx.ByteStream(b"".join(response.body)),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": response.reason},
        )

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take(self, request: httpx.Request) -> socket.socket:
        timeout = request.extensions["timeout"]
        while self._idle:
            connection = self._idle.pop()
            if not _is_readable(connection):  # else the server has closed it
                connection.settimeout(timeout["read"])
                return connection
            connection.close()
        try:
            connection = socket.create_connection((request.url.host, request.url.port or 80), timeout["connect"])
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(timeout["read"])
        return connection


def _is_readable(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _encoded(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    body = request.read()
    if "Transfer-Encoding" in request.headers:
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return b"\r\n".join([*lines, b"", body])
