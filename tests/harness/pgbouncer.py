"""PgBouncer of this machine with the configuration that is shipped, before an embedded PostgreSQL."""

import re
import shutil
import signal
from pathlib import Path
from typing import ClassVar

import psycopg

from tools.embedded import EmbeddedPostgres
from tools.embedded.paths import ourselves, own_directory
from tools.embedded.ports import free_port
from tools.embedded.server import EmbeddedServer

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
MISSING = "pgbouncer is not on this machine (Debian: apt-get install pgbouncer)"
SHIPPED = Path(__file__).parents[2] / "deploy" / "pgbouncer" / "pgbouncer.ini"
PASSWORD = "a password of tests"


class PgBouncer(EmbeddedServer):
    """Serves `database` of a cluster as `change_freeze`, to a login with a password."""

    name: ClassVar[str] = "PgBouncer"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path, postgres: EmbeddedPostgres, login: str, database: str) -> None:
        super().__init__(directory)
        self._postgres, self._login, self._database = postgres, login, database
        self._port = free_port()

    @property
    def url(self) -> str:
        """The value of DATABASE_URL."""
        password = PASSWORD.replace(" ", "%20")
        return f"postgresql://{self._login}:{password}@127.0.0.1:{self._port}/change_freeze"

    def prepare(self) -> list[str | Path]:
        """Write the shipped configuration with addresses of this machine, and return the command line."""
        assert PROGRAM is not None, MISSING
        account = self.account or ourselves()
        own_directory(self.directory, account, 0o700)
        users = self._write("userlist.txt", f'"{self._login}" "{PASSWORD}"\n')
        settings = {
            "change_freeze": f"host={self._postgres.sockets} dbname={self._database}",
            "listen_port": self._port,
            "auth_file": users,
        }
        content = SHIPPED.read_text()
        for name, value in settings.items():
            content, found = re.subn(f"^{name} = .*", f"{name} = {value}", content, flags=re.MULTILINE)
            assert found == 1, name
        return [PROGRAM, self._write("pgbouncer.ini", content)]

    def is_ready(self) -> bool:
        """Return whether it serves PostgreSQL."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _write(self, name: str, content: str) -> Path:
        file = self.directory / name
        file.write_text(content)
        account = self.account or ourselves()
        shutil.chown(file, account.user, account.group)
        return file
