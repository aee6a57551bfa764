"""Sessions of the database's owner, who sees the rows of every organisation."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine
from sqlalchemy.orm import Session


@contextmanager
def committing(database_url: str) -> Iterator[Session]:
    """Open a session where what is added or changed is committed at once."""
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    with Session(engine, expire_on_commit=False) as session:
        yield session
    engine.dispose()
