"""How far the pools of database connections of a process are in use."""

from sqlalchemy import Engine

from app.database import MeasuredPool
from app.metrics import families

_SIZE = families.POOL_CONNECTIONS.gauge()
_IN_USE = families.POOL_IN_USE.gauge()


def sample_engine(engine: Engine) -> None:
    """Show the pool of an engine."""
    pool = engine.pool
    if isinstance(pool, MeasuredPool):
        sample_pool(pool.logging_name or "", pool.size(), pool.checkedout())


def sample_pool(name: str, size: int, in_use: int) -> None:
    """Show a pool."""
    _SIZE.labels(name).set(size)
    _IN_USE.labels(name).set(in_use)
