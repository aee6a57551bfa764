"""Emptying a database between tests, in a quarter of a millisecond."""

from typing import Any, LiteralString

import psycopg
from psycopg import sql

PROCESSES_RUN: LiteralString = (
    "INSERT INTO lease_holders (kind, beat_at) VALUES ('worker', 'infinity'), ('sweeper', 'infinity')"
)
"""A worker and a sweeper that no clock finds silent: where none runs, that needs attention."""


def define_reset(connection: psycopg.Connection[Any]) -> None:
    """Define what `reset` calls on this connection: a function, whose statements PostgreSQL plans once."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
    ).fetchall()
    statements = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for (table,) in tables]
    body = sql.SQL("BEGIN {}; END").format(sql.SQL("; ").join([*statements, sql.SQL(PROCESSES_RUN)]))
    connection.execute(
        sql.SQL("CREATE FUNCTION pg_temp.reset() RETURNS void LANGUAGE plpgsql AS {}").format(
            sql.Literal(body.as_string(connection))
        )
    )


def reset(connection: psycopg.Connection[Any]) -> None:
    """Delete all rows, except that a worker and a sweeper run."""
    connection.execute("SELECT pg_temp.reset()")
