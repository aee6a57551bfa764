"""A small closed-loop HTTP load generator: so many keep-alive connections, each sending its next request at once.

It runs in a process of its own, with raw sockets, so that measuring costs as little as possible beside what is
measured. `python -m tools.bench.load` reads arguments of `_generate` as JSON, and prints what it found as JSON.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvloop

if TYPE_CHECKING:  # the process that loads imports little
    from tools.bench.servers import WebServer

ROUNDS = 5
CONTENT_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of load found."""

    requests: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    statuses: list[str]
    cpu: float = 0.0
    """Microseconds of the server's processes for each request."""

    def __str__(self) -> str:
        latencies = f"p50 {self.p50_ms:.1f} ms   p95 {self.p95_ms:.1f} ms   p99 {self.p99_ms:.1f} ms"
        return f"{self.per_second:6.0f} requests/s   {self.cpu:6.0f} µs of CPU   {latencies}   statuses {self.statuses}"


async def _connection(host: str, port: int, request: bytes, end: float, times: list[float], statuses: set[str]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    while (start_time := time.perf_counter()) < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        if length:
            await reader.readexactly(int(length[1]))
        times.append(time.perf_counter() - start_time)
        statuses.add(head[9:12].decode())
    writer.close()


async def _generate(url: str, headers: Sequence[str], body: str, connections: int, seconds: float) -> Load:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{'POST' if body else 'GET'} {target} HTTP/1.1", f"Host: {parts.netloc}", *headers]
    content = body.encode()
    request = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content
    times: list[float] = []
    statuses: set[str] = set()
    start_time = time.perf_counter()
    place = parts.hostname or "", parts.port or 80
    clients = (_connection(*place, request, start_time + seconds, times, statuses) for _ in range(connections))
    await asyncio.gather(*clients)
    took = time.perf_counter() - start_time
    p50, p95, p99 = (statistics.quantiles(times, n=100)[percent - 1] * 1000 for percent in (50, 95, 99))
    return Load(len(times), len(times) / took, p50, p95, p99, sorted(statuses))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: a GET, or a POST if it has a body."""

    server: "WebServer"
    path: str
    headers: Sequence[str] = ()
    body: str = ""


def run(asked: Asked, *, connections: int = 16, seconds: float = 4.0) -> Load:
    """Send a request again and again from a process of its own, and return what that found."""
    arguments = {"url": asked.server.address + asked.path, "headers": asked.headers, "body": asked.body}
    question = json.dumps({**arguments, "connections": connections, "seconds": seconds})
    before = asked.server.cpu_seconds
    command = [sys.executable, "-m", "tools.bench.load"]
    answer = subprocess.run(command, check=True, capture_output=True, input=question.encode())
    found = Load(**json.loads(answer.stdout))
    return replace(found, cpu=(asked.server.cpu_seconds - before) / found.requests * 1e6)


def in_turns(asked: Mapping[str, Asked], *, connections: int = 16, seconds: float = 2.0) -> dict[str, Load]:
    """Send requests in alternating rounds; return the medians, by name."""
    found: dict[str, list[Load]] = {name: [] for name in asked}
    for _ in range(ROUNDS):
        for name, each in asked.items():
            found[name].append(run(each, connections=connections, seconds=seconds))
    return {
        name: Load(**{figure.name: _middle(figure.name, loads) for figure in fields(Load)})
        for name, loads in found.items()
    }


def _middle(name: str, loads: Sequence[Load]) -> Any:
    """Return the median of a figure, or every status that was seen."""
    found = [getattr(load, name) for load in loads]
    return sorted(set().union(*found)) if name == "statuses" else statistics.median(found)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_generate(**json.load(sys.stdin))))))
