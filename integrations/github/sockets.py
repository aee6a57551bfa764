"""Connections with one deadline for a whole call.

A timeout of `requests` bounds one read, so a server that sends a byte now and then could block a thread for ever. Here
each socket operation, with TLS and without, gets only the remaining time of the call as its timeout.

It depends on internals: urllib3 creates its sockets in `HTTPConnection._new_conn`, and TLS sockets have the class
`sslsocket_class` of the context. Name resolution is not bounded by the deadline, and connecting to each address of a
host times out after five seconds.
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


class Deadline:
    """The deadline of one call, and whether a byte of it has been sent; or that which several calls share."""

    __slots__ = ("ends", "sent", "shared")

    def __init__(self, seconds: float, *, shared: bool = False) -> None:
        self.ends = time.monotonic() + seconds
        self.sent = False
        self.shared = shared

    @property
    def expired(self) -> bool:
        """True if the deadline has passed."""
        return time.monotonic() >= self.ends

    def remaining(self) -> float:
        """Return the remaining seconds. Raise `TimeoutError` if the deadline has passed."""
        seconds = self.ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the call's deadline has passed")
        return seconds


CALL_DEADLINE: ContextVar[Deadline] = ContextVar("github_call_deadline")


class _TimedSocket(socket.socket):
    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(CALL_DEADLINE.get().remaining())
        return super().recv_into(*args, **named)

    def sendall(self, *args: Any, **named: Any) -> None:
        call = CALL_DEADLINE.get()
        self.settimeout(call.remaining())
        call.sent = True
        super().sendall(*args, **named)


class _TimedTLSSocket(ssl.SSLSocket):
    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(CALL_DEADLINE.get().remaining())
        return super().recv_into(*args, **named)

    def send(self, *args: Any, **named: Any) -> int:
        call = CALL_DEADLINE.get()
        self.settimeout(call.remaining())
        call.sent = True
        return super().send(*args, **named)


def _timed(connection: HTTPConnection, plain: socket.socket) -> socket.socket:
    timed = _TimedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
    timed.settimeout(CALL_DEADLINE.get().remaining())
    connection.timeout = timed.gettimeout()
    return timed


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        self.timeout = min(_CONNECT_SECONDS, CALL_DEADLINE.get().remaining())
        return _timed(self, super()._new_conn())


class _TLSConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        self.timeout = min(_CONNECT_SECONDS, CALL_DEADLINE.get().remaining())
        return _timed(self, super()._new_conn())


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_POOLS = {"http": _Pool, "https": _TLSPool}


class DeadlineAdapter(HTTPAdapter):
    """A pooled adapter of `requests`, direct or through a proxy, whose sockets keep the `CALL_DEADLINE`."""

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        """Create the pool of direct connections."""
        super().init_poolmanager(*args, ssl_context=_context(), **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        """Return the pool of connections through a proxy; create it if necessary."""
        manager = super().proxy_manager_for(proxy, ssl_context=_context(), **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def _context() -> ssl.SSLContext:
    context = create_urllib3_context()
    context.sslsocket_class = _TimedTLSSocket
    return context
