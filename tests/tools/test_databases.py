"""What `conftest.py` promises to every other test."""

import psycopg
import pytest
from redis import Redis
from sqlalchemy import make_url

NAMES = ["first", "second"]


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))


@pytest.mark.parametrize("name", NAMES)
def test_each_test_finds_the_tables_empty(database: str, name: str) -> None:
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM organizations").fetchone() == (0,)
        connection.execute(
            "INSERT INTO organizations (id, name, slug, settings, created_at) VALUES (%s, %s, %s, '{}', now())",
            [name, name, name],
        )


@pytest.mark.parametrize("name", NAMES)
def test_each_test_finds_redis_empty(redis: Redis, name: str) -> None:
    assert redis.dbsize() == 0
    redis.set(name, 1)


def test_own_database_is_migrated_and_not_shared(own_database: str, database: str) -> None:
    with connect(own_database) as connection:
        connection.execute("DROP TABLE reminders")
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM reminders").fetchone() == (0,)


def test_unmigrated_database_has_no_tables(unmigrated_database: str) -> None:
    with connect(unmigrated_database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
