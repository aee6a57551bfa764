"""A database as an older release left it, which a migration upgrades."""

from collections.abc import Callable, Mapping
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

CONFIG = Config("alembic.ini")
REVISIONS = [script.revision for script in reversed(list(ScriptDirectory.from_config(CONFIG).walk_revisions()))]


class OldDatabase:
    """A database that stands before a revision."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.owner: str | None = None

    def migrate(self, revision: str, step: Callable[[Config, str], None] = command.upgrade) -> None:
        """Upgrade or downgrade to a revision, as the owner of the tables."""
        with self.engine.connect() as connection:
            if self.owner is not None:
                connection.exec_driver_sql(f"SET ROLE {self.owner}")
                connection.commit()
            CONFIG.attributes["connection"] = connection
            step(CONFIG, revision)

    def upgrade_until(self, revision: str) -> None:
        """Upgrade to the revision before this one."""
        self.migrate(REVISIONS[REVISIONS.index(revision) - 1])

    def give_to_plain_owner(self) -> None:
        """Give all tables to a role that is no superuser, so that forced row-level security binds the migration."""
        self.owner = f"owner_of_{self.engine.url.database}"
        with self.engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {self.owner} NOSUPERUSER IN ROLE change_freeze_worker")
            connection.exec_driver_sql(f"ALTER SCHEMA public OWNER TO {self.owner}")
            for table in connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all():
                connection.exec_driver_sql(f"ALTER TABLE {table} OWNER TO {self.owner}")

    def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> None:
        """Run a statement as superuser."""
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, as superuser."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    def close(self) -> None:
        """Remove the plain owner with what it owns."""
        if self.owner is not None:
            with self.engine.begin() as connection:
                connection.exec_driver_sql(f"DROP OWNED BY {self.owner} CASCADE")
                connection.exec_driver_sql(f"DROP ROLE {self.owner}")
        self.engine.dispose()
