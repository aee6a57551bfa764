"""Sessions of the database's owner, who sees the rows of every organisation."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from tests.harness.engines import owner_engine_of


@contextmanager
def committing(database_url: str) -> Iterator[Session]:
    """Open a session where what is added or changed is committed at once."""
    with Session(owner_engine_of(database_url, autocommit=True), expire_on_commit=False) as session:
        yield session
