"""Servers for measurements: embedded PostgreSQL and Redis, and HTTP servers under gunicorn, stopped at the end."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.orm import Session

from app.commands.migrate import migrate
from tests.factories.organizations import SECRET_KEY
from tools.embedded import EmbeddedPostgres, EmbeddedValkey
from tools.embedded.ports import free_port
from tools.embedded.processes import Program, start_child, stop_child

Child = subprocess.Popen[bytes]
WORKERS = 2
START_TIMEOUT, STOP_TIMEOUT = 30.0, 20.0


@dataclass(frozen=True, slots=True)
class Storage:
    """Addresses of an empty, migrated database and of a Redis."""

    database_url: str
    redis_url: str
    postgres: EmbeddedPostgres

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find them, and to be measured: limits that are never met, and a quiet log."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "SECRET_KEY": SECRET_KEY,
            "CURSOR_SECRET": "another secret of the benchmark",
            "RATE_LIMIT_ORGANIZATION": "1000000000",
            "RATE_LIMIT_WRITES": "1000000000",
            "LOG_LEVEL": "WARNING",
        }

    @contextmanager
    def rows(self) -> Iterator[Session]:
        """Open a session of the database's owner; what is changed in the block is committed at its end."""
        with Session(create_engine(self.database_url, poolclass=NullPool)) as session, session.begin():
            yield session

    def sql(self, statement: str, **values: Any) -> Any:
        """Run a statement, and return the first value of its result, if it has one."""
        with self.rows() as session:
            found = session.connection().execute(text(statement), values)
            return found.scalar() if found.returns_rows else None

    def connection(self) -> Connection:
        """Open a connection of the database's owner, which commits each statement."""
        return create_engine(self.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()

    def analyze(self) -> None:
        """Do what autovacuum does within a minute."""
        with self.connection() as connection:
            connection.execute(text("VACUUM ANALYZE"))


@contextmanager
def storage() -> Iterator[Storage]:
    """Start PostgreSQL and Redis in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="change-freeze-bench-", dir="/tmp") as home:
        Path(home).chmod(0o711)  # the unprivileged account of the servers passes through
        with EmbeddedPostgres(Path(home, "postgres")) as postgres, EmbeddedValkey(Path(home, "redis")) as valkey:
            url = postgres.url("postgres").replace("postgresql://", "postgresql+psycopg://", 1)
            migrate(url)
            yield Storage(url, valkey.url, postgres)


@contextmanager
def run(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[Child]:
    """Run a program during the block; what it wrote is shown if it fails."""
    with tempfile.TemporaryFile() as log:
        started = start_child(Program(arguments, {**os.environ, **environment}, Path.cwd()), log)
        try:
            yield started
        finally:
            stop_child(started, signal.SIGTERM, STOP_TIMEOUT)
            if started.returncode not in {0, -signal.SIGTERM, -signal.SIGKILL}:
                log.seek(0)
                sys.stderr.write(log.read().decode(errors="replace")[-3000:])


def process(arguments: Sequence[str], environment: Mapping[str, str]) -> AbstractContextManager[Child]:
    """Run `python -m` with these arguments during the block."""
    return run([sys.executable, "-m", *arguments], environment)


@dataclass(frozen=True, slots=True)
class WebServer:
    """A gunicorn that serves an application."""

    address: str
    process_id: int

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of its processes until now."""
        return cpu_seconds(self.process_id)


def cpu_seconds(process_id: int) -> float:
    """Return the CPU time of a process and of those that it has started, in user mode and in the kernel."""
    stats = [Path(f"/proc/{each}/stat").read_text() for each in family(process_id)]
    ticks = sum(int(value) for stat in stats for value in stat.rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def family(process_id: int) -> list[int]:
    """Return a process and those that it has started."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return [process_id, *map(int, children)]


@contextmanager
def web(
    environment: Mapping[str, str], *, application: str = "app.main:app", ready: str = "/readyz", port: int = 0
) -> Iterator[WebServer]:
    """Serve an ASGI application under gunicorn, and yield the server once `ready` answers below 500."""
    port = port or free_port()
    settings = {"PORT": str(port), "WEB_CONCURRENCY": str(WORKERS), **environment}
    address = f"http://127.0.0.1:{port}"
    with process(["gunicorn", "-c", "app/gunicorn.py", application], settings) as server:
        wait_for(f"{address}{ready}", server)
        yield WebServer(address, server.pid)


def wait_for(url: str, server: Child) -> None:
    """Wait until `url` answers below 500; raise RuntimeError when its server ends or takes too long."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end and server.poll() is None:
        with suppress(requests.RequestException):
            if requests.get(url, timeout=2).status_code < 500:
                return
        time.sleep(0.02)
    raise RuntimeError(f"{url} did not come up")


def machine() -> str:
    """Return a line about where this was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "unknown processor")
    return f"{os.cpu_count()} cores, {model}, Python {sys.version.split()[0]}"
