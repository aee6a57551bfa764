"""Runs migrations on the database of DATABASE_URL, as its owner.

A caller in the same process hands over its own connection instead, as `config.attributes["connection"]`.
"""

import os
import sys
from pathlib import Path

from alembic import context
from sqlalchemy import Connection, create_engine, make_url, pool, text

from models import Base

PREVIOUS_REVISION = Path(__file__).with_name("PREVIOUS_RELEASE").read_text().split()[1]
"""The newest revision of the release before this one, whose code works with the schema of this one."""
MIGRATION_LOCK = 4_207_112_026
"""Advisory lock: of several processes that start at once, one migrates and the others wait for it."""


def migrate(connection: Connection) -> None:
    """Run the wanted revisions in one transaction: all of them, or none."""
    context.configure(connection=connection, target_metadata=Base.metadata, transaction_per_migration=False)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        timeout = context.config.attributes.get("lock_timeout", "0")
        connection.execute(text("SELECT set_config('lock_timeout', :timeout, true)"), {"timeout": timeout})
        context.run_migrations()
        # Processes of a release that the schema allows may start although it is newer than they are.
        connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{PREVIOUS_REVISION}'"))


def migrate_environment() -> None:
    """Migrate the database that the environment names."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        sys.exit("DATABASE_URL is not set: it names the database to migrate, as its owner.")
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with engine.connect() as connection:
        migrate(connection)


if context.is_offline_mode():
    sys.exit("Migrations run on a live database only; `--sql` is not supported.")
handed_over = context.config.attributes.get("connection")
if isinstance(handed_over, Connection):
    migrate(handed_over)
else:
    migrate_environment()
