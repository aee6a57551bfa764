"""Engines that live as long as their database: connections stay open, and statements are compiled once per run.

A new engine for each test would compile every statement again and have PostgreSQL plan it again, which takes more time
than most tests need for everything else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, event

from app.database import APP_ROLE, make_engine

_engines: dict[tuple[str, str], Engine] = {}


def engine_of(database_url: str, role: str = APP_ROLE) -> Engine:
    """Return the engine of a database as the product makes it for a role, with up to eight connections."""
    key = (database_url, role)
    if key not in _engines:
        _engines[key] = make_engine(database_url, 8, role)
    return _engines[key]


def owner_engine_of(database_url: str, *, autocommit: bool = False) -> Engine:
    """Return the engine of a database's owner, who sees the rows of every organisation."""
    key = (database_url, "autocommit" if autocommit else "owner")
    if key not in _engines:
        options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        _engines[key] = create_engine(database_url, **options)
    return _engines[key]


def dispose_engines(database_url: str) -> None:
    """Close all connections to a database."""
    for key in [key for key in _engines if key[0] == database_url]:
        _engines.pop(key).dispose()


@contextmanager
def listening(engine: Engine, name: str, listener: Callable[..., None]) -> Iterator[None]:
    """Call `listener` at each of the engine's events of this name while the block runs."""
    event.listen(engine, name, listener)
    try:
        yield
    finally:
        event.remove(engine, name, listener)
