"""Wires: TCP proxies between the processes and their servers, which can be cut, refused, hung, delayed and tapped.

Each process has wires of its own to PostgreSQL, Redis and GitHub, so that a fault strikes one of them or all.
A `Trap` holds one request, before the server sees it or before the client sees its answer, until it is let go or its
connection is cut: that makes "killed right before its write" and "the answer was lost" happen every time.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tests.faults.suite.protocols import Bytes, Dialect

CHUNK = 1 << 16
GONE = (OSError, asyncio.CancelledError)
"""What carrying ends with when a side has gone."""
T = TypeVar("T")
Place = Literal["request", "answer"]
Address = tuple[str, int] | str
"""Host and port, or the path of a socket."""


class Exchange:
    """The thread that carries everything."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.wires: list[Wire] = []
        self._thread = threading.Thread(target=self.loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the wires' thread, and return what it does."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def stop(self) -> None:
        """Break what flows, and end the thread."""
        for wire in self.wires:
            wire.refuse()
        self.do(self._cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    @staticmethod
    async def _cancel() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@dataclass(eq=False)
class Trap:
    """Catches requests that match. With `place="answer"` the server has done what was asked."""

    wire: "Wire"
    matches: Callable[[str], bool]
    place: Place
    most: int
    strikes: bool
    """Cut what is caught at once, instead of holding it."""
    caught: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _cut: bool = False

    def wait(self, patience: float = 60.0) -> None:
        """Wait until something is caught."""
        assert self.caught.wait(patience), f"nothing was caught on {self.wire.name} within {patience:.0f} s"

    def release(self) -> None:
        """Let go what is held, and catch nothing more."""
        self._end(cut=False)

    def cut(self) -> None:
        """Break the connections of what is held, and catch nothing more."""
        self._end(cut=True)

    def _end(self, *, cut: bool) -> None:
        with suppress(ValueError):
            self.wire.traps.remove(self)
        self._cut = cut
        self.wire.exchange.loop.call_soon_threadsafe(self._open.set)

    def takes(self, request: str) -> bool:
        """Count a request that may be caught; True if it is to be caught."""
        if self.count >= self.most or not self.matches(request):
            return False
        self.count += 1
        return True

    async def hold(self) -> bool:
        """Wait until the trap is opened; False when the connection is to be cut."""
        self.caught.set()
        if self.strikes:
            return False
        await self._open.wait()
        return not self._cut


class Wire:
    """One address on this machine that leads to a server."""

    def __init__(
        self, exchange: Exchange, name: str, upstream: Address, dialect: Callable[[], Dialect] = Bytes
    ) -> None:
        self.exchange, self.name, self.upstream, self.dialect = exchange, name, upstream, dialect
        self.port = 0
        self.delay = 0.0
        """Seconds by which each piece of a request is late."""
        self.traps: list[Trap] = []
        self.taken = 0
        """Connections that were ever taken."""
        self._server: asyncio.Server | None = None
        self._flows: set[_Flow] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        exchange.wires.append(self)
        exchange.do(self._listen())

    # --- faults ---------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break every connection; new ones go through."""
        self.exchange.do(self._cut())

    def refuse(self) -> None:
        """Be a server that has stopped: break every connection and take no new one."""
        self.exchange.do(self._refuse())

    def hang(self) -> None:
        """Take every byte and pass none on, in either direction; new connections are taken as well."""
        self.exchange.loop.call_soon_threadsafe(self._flowing.clear)

    def heal(self) -> None:
        """Go on as usual. What was swallowed stays lost: connections that hung are broken."""
        self.delay = 0.0
        for trap in list(self.traps):
            trap.cut()
        self.exchange.do(self._heal())

    def trap(
        self, matches: Callable[[str], bool] | str, place: Place = "request", *, most: int = 1, strikes: bool = False
    ) -> Trap:
        """Lie in wait for a request: one that `matches`, or has that text in it."""
        test = (lambda request: matches in request) if isinstance(matches, str) else matches
        made = Trap(self, test, place, most, strikes)
        self.traps.append(made)
        return made

    # --- on the wires' thread -------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        for flow in list(self._flows):
            flow.abort()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _heal(self) -> None:
        if not self._flowing.is_set():
            await self._cut()
            self._flowing.set()
        if self._server is None:
            await self._listen()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        try:
            if isinstance(self.upstream, str):
                there = await asyncio.open_unix_connection(self.upstream)
            else:
                there = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.transport.abort()
            return
        flow = _Flow(self, (reader, writer), there)
        self._flows.add(flow)
        try:
            await flow.run()
        finally:
            flow.abort()
            self._flows.discard(flow)

    async def may_pass(self, seconds: float = 0.0) -> None:
        """Wait while the wire hangs, and for its delay."""
        if seconds:
            await asyncio.sleep(seconds)
        await self._flowing.wait()


class Wires(list[Wire]):
    """The wires of all processes to one server."""

    def refuse(self) -> None:
        """Have the server be one that has stopped, for every process."""
        for wire in self:
            wire.refuse()

    def hang(self) -> None:
        """Have the server hang, for every process."""
        for wire in self:
            wire.hang()

    def heal(self) -> None:
        """Go on as usual."""
        for wire in self:
            wire.heal()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Flow:
    """One connection through a wire."""

    def __init__(self, wire: Wire, here: Stream, there: Stream) -> None:
        self.wire, self.here, self.there = wire, here, there
        self.dialect = wire.dialect()
        self.awaited: Trap | None = None
        """The trap that waits for the answer to what was passed on."""

    async def run(self) -> None:
        """Carry bytes both ways until one side ends."""
        tasks = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        with suppress(*GONE):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
            with suppress(*GONE):
                await task
        self.abort()

    def abort(self) -> None:
        """Break both connections."""
        for _reader, writer in (self.here, self.there):
            writer.transport.abort()

    async def _requests(self) -> None:
        while data := await self.here[0].read(CHUNK):
            await self.wire.may_pass(self.wire.delay)
            request = self.dialect.request(data)
            trap = next((one for one in list(self.wire.traps) if one.takes(request)), None)
            if trap is not None and trap.place == "answer":
                self.awaited = trap
            elif trap is not None and not await trap.hold():
                return
            self.there[1].write(data)
            await self.there[1].drain()

    async def _answers(self) -> None:
        while data := await self.there[0].read(CHUNK):
            trap, self.awaited = self.awaited, None
            if trap is not None and not await trap.hold():
                return
            await self.wire.may_pass()
            self.dialect.answered()
            self.here[1].write(data)
            await self.here[1].drain()
