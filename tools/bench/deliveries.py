"""A small open-loop sender of webhooks: so many a second, whether those before are answered or not.

It runs in a process of its own, with raw sockets over kept connections, a further one where all are busy, so that a
slow answer never delays the next delivery. Times run from the moment at which a delivery was due.
`python -m tools.bench.deliveries FILE` sends what the file says (`Plan`, as JSON) and prints JSON.
"""

import argparse
import asyncio
import base64
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from tools.bench.load import CONTENT_LENGTH
from tools.fake_github.webhooks.sender import signature

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Template:
    """A delivery that is sent again and again under new ids."""

    event: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent: each template as head and body (base64), where to, and how fast."""

    url: str
    templates: list[tuple[str, str]]
    per_second: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How fast deliveries were acknowledged; `late_ms` is how late the sender itself was at worst."""

    sent: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    late_ms: float
    connections: int
    statuses: dict[str, int]


class Sender:
    """Sends deliveries and notes how long each took."""

    def __init__(self, plan: Plan) -> None:
        parts = urlsplit(plan.url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.plan, self.idle, self.opened = plan, list[Connection](), 0
        self.requests = [(head.encode(), base64.b64decode(body)) for head, body in plan.templates]
        self.times: list[float] = []
        self.late: list[float] = []
        self.statuses: dict[str, int] = {}

    async def run(self) -> Acknowledged:
        """Send everything at an even pace, and wait for the last answer."""
        start_time, count = time.perf_counter(), int(self.plan.per_second * self.plan.seconds)
        under_way = []
        for number in range(count):
            due = start_time + number / self.plan.per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.late.append(time.perf_counter() - due)
            under_way.append(asyncio.create_task(self._send(number, due)))
        await asyncio.gather(*under_way)
        for _, writer in self.idle:
            writer.close()
        self.times.sort()
        return Acknowledged(
            count,
            self.times[count // 2] * 1000,
            self.times[int(count * 0.99)] * 1000,
            self.times[-1] * 1000,
            max(self.late) * 1000,
            self.opened,
            self.statuses,
        )

    async def _send(self, number: int, due: float) -> None:
        head, body = self.requests[number % len(self.requests)]
        reader, writer = await self._connection()
        writer.write(head + f"X-GitHub-Delivery: {uuid.uuid4()}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(answer)
        if length:
            await reader.readexactly(int(length[1]))
        self.times.append(time.perf_counter() - due)
        status = answer[9:12].decode()
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.idle.append((reader, writer))

    async def _connection(self) -> Connection:
        if self.idle:
            return self.idle.pop()
        self.opened += 1
        return await asyncio.open_connection(self.host, self.port)


def head_of(url: str, secret: str, template: Template) -> str:
    """Return the request's line and headers as GitHub sends them, all but the delivery's id."""
    parts = urlsplit(url)
    lines = (
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Accept: */*",
        "Content-Type: application/json",
        "User-Agent: GitHub-Hookshot/c0de405",
        f"X-GitHub-Event: {template.event}",
        f"X-Hub-Signature-256: {signature(secret, template.body)}",
        f"Content-Length: {len(template.body)}",
    )
    return "".join(f"{line}\r\n" for line in lines)


def send(url: str, secret: str, templates: Sequence[Template], *, per_second: int, seconds: float) -> Acknowledged:
    """Send deliveries from a process of its own, the templates in turns, and return how they were acknowledged."""
    shaped = [(head_of(url, secret, each), base64.b64encode(each.body).decode()) for each in templates]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asdict(Plan(url, shaped, per_second, seconds)), file)
        file.flush()
        command = [sys.executable, "-m", "tools.bench.deliveries", file.name]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Acknowledged(**json.loads(answer.stdout))


def main() -> None:
    """Send as the file says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    plan = Plan(**json.loads(parser.parse_args().file.read_text()))
    print(json.dumps(asdict(uvloop.run(Sender(plan).run()))))


if __name__ == "__main__":
    main()
