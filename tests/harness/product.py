"""The product's own application for tests: the real contract and the real handlers, every answer checked."""

from typing import Any

import psycopg
from sqlalchemy import make_url

from app.config import Config
from app.main import Parts
from tests.factories import SECRET_KEY
from tests.harness.passwords import HASHER


def product_config(database_url: str, redis_url: str, **changes: Any) -> Config:
    """Return a configuration for tests; `changes` are fields of Config."""
    defaults: dict[str, Any] = {
        "validate_responses": True,
        "cursor_secret": "a secret of tests only",
        "secret_key": SECRET_KEY,
        "rate_limit_organization": 1_000_000,
        "rate_limit_writes": 1_000_000,
        "database_pool_size": 4,
    }
    return Config(database_url=database_url, redis_url=redis_url, **{**defaults, **changes})


def product_parts(**changes: Any) -> Parts:
    """Return the parts of an application for tests: no access log, and cheap password hashes."""
    return Parts(**{"access_log": False, "password_hasher": HASHER, **changes})


def address_of(connection: psycopg.Connection[Any]) -> str:
    """Return the address of the database that a connection is to."""
    info = connection.info
    url = make_url("postgresql+psycopg://").set(
        username=info.user,
        password=info.password or None,
        database=info.dbname,
        query={"host": info.host, "port": str(info.port)},
    )
    return url.render_as_string(hide_password=False)
