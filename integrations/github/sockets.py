"""Connections that keep one deadline for a whole call.

A timeout of `requests` bounds one read, so a server that sends a byte now and then holds a thread for ever. Here each
operation on the socket, of the TLS layer and of plain TCP alike, is given only what is left of the call's time.

What it leans on: urllib3 makes its socket in `HTTPConnection._new_conn` and TLS sockets are of the class that the
context names in `sslsocket_class`. Name resolution is the resolver's own affair, and each address of a host is given
up after five seconds; both are outside the deadline, and in practice below it.
"""

import socket
import ssl
import time
from contextvars import ContextVar
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.ssl_ import create_urllib3_context

_CONNECT_SECONDS = 5.0


class Stopwatch:
    """The time left of one call, and whether a byte of it has left this process."""

    __slots__ = ("ends", "sent")

    def __init__(self, seconds: float) -> None:
        self.ends = time.monotonic() + seconds
        self.sent = False

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.ends

    def left(self) -> float:
        """Return the seconds left; raises `TimeoutError` when there are none."""
        seconds = self.ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the call's deadline has passed")
        return seconds


STOPWATCH: ContextVar[Stopwatch] = ContextVar("github_call_stopwatch")


class _TimedSocket(socket.socket):
    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(STOPWATCH.get().left())
        return super().recv_into(*args, **named)

    def sendall(self, *args: Any, **named: Any) -> None:
        call = STOPWATCH.get()
        self.settimeout(call.left())
        call.sent = True
        super().sendall(*args, **named)


class _TimedTLSSocket(ssl.SSLSocket):
    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(STOPWATCH.get().left())
        return super().recv_into(*args, **named)

    def send(self, *args: Any, **named: Any) -> int:
        call = STOPWATCH.get()
        self.settimeout(call.left())
        call.sent = True
        return super().send(*args, **named)


def _timed(connection: HTTPConnection, plain: socket.socket) -> socket.socket:
    timed = _TimedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
    timed.settimeout(STOPWATCH.get().left())
    connection.timeout = timed.gettimeout()
    return timed


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        self.timeout = min(_CONNECT_SECONDS, STOPWATCH.get().left())
        return _timed(self, super()._new_conn())


class _TLSConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        self.timeout = min(_CONNECT_SECONDS, STOPWATCH.get().left())
        return _timed(self, super()._new_conn())


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_POOLS = {"http": _Pool, "https": _TLSPool}


class DeadlineAdapter(HTTPAdapter):
    """A pooled adapter of `requests`, direct or through a proxy, whose sockets obey the `STOPWATCH`."""

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        """Make the pool of direct connections."""
        super().init_poolmanager(*args, ssl_context=_context(), **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        """Make, or find, the pool of connections through a proxy."""
        manager = super().proxy_manager_for(proxy, ssl_context=_context(), **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def _context() -> ssl.SSLContext:
    context = create_urllib3_context()
    context.sslsocket_class = _TimedTLSSocket
    return context
