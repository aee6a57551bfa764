"""Sessions of the database's owner, who sees the rows of every organisation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session

from models.base import Base
from tests.harness.engines import owner_engine_of


@contextmanager
def owner_session(database_url: str, *, autocommit: bool = False) -> Iterator[Session]:
    """Open a session that commits explicitly, and that only this thread may use.

    Sessions are not made for several threads: what two do at the same moment fails now and then.
    """
    thread = threading.current_thread()

    def refuse_others(*_: Any) -> None:
        assert threading.current_thread() is thread, "a session of another thread"

    with Session(owner_engine_of(database_url, autocommit=autocommit), expire_on_commit=False) as session:
        for name in ("do_orm_execute", "before_flush", "before_commit", "after_begin"):
            event.listen(session, name, refuse_others)
        yield session


def id_of(row: Base) -> str:
    """Return the id of a stored row in any thread, which may not load the row again."""
    identity = inspect(row, raiseerr=True).identity
    assert identity is not None
    return str(identity[0])


@contextmanager
def committing(database_url: str) -> Iterator[Session]:
    """Open a session where what is added or changed is committed at once."""
    with owner_session(database_url, autocommit=True) as session:
        yield session
