"""Migrating a database from Python, for whoever has just made one."""

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, pool

from tools.sandbox.settings import ROOT


def migrate(url: str, revision: str = "head") -> None:
    """Bring the database of `url` to a revision, as its owner."""
    configuration = Config(ROOT / "alembic.ini")
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with engine.connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
