"""Emptying a database between tests, in a quarter of a millisecond, or filling it again with what a module shares."""

import itertools
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
from psycopg import sql

PROCESSES_RUN: LiteralString = """
    INSERT INTO lease_holders (kind, beat_at) VALUES ('worker', 'infinity');
    INSERT INTO periodic_tasks (name, done_at, due_at) VALUES ('windows', 'infinity', now())
"""
"""A worker that no clock finds silent, and that has swept: where none runs, that needs attention."""

RUNS_HERE: LiteralString = """
    UPDATE database_identity i
    SET (system_identifier, database_oid, table_oid, timeline) =
        (SELECT n.system_identifier, n.database_oid, n.table_oid, n.timeline FROM present_database n)
"""
"""The database is no restored one, although it is a copy."""
NOT_RESTORED: LiteralString = "UPDATE database_identity SET noticed_at = NULL WHERE noticed_at IS NOT NULL"
KEPT = ("alembic_version", "database_identity")
"""Tables whose rows are of the database itself."""
_numbers = itertools.count(1)


def define_reset(connection: psycopg.Connection[Any]) -> None:
    """Define what `reset` calls on this connection: a function, whose statements PostgreSQL plans once."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s)", [list(KEPT)]
    ).fetchall()
    statements = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for (table,) in tables]
    body = sql.SQL("BEGIN {}; END").format(
        sql.SQL("; ").join([*statements, sql.SQL(PROCESSES_RUN), sql.SQL(NOT_RESTORED)])
    )
    connection.execute(
        sql.SQL("CREATE FUNCTION pg_temp.reset() RETURNS void LANGUAGE plpgsql AS {}").format(
            sql.Literal(body.as_string(connection))
        )
    )


def reset(connection: psycopg.Connection[Any]) -> None:
    """Delete all rows, except that a worker runs and sweeps."""
    connection.execute("SELECT pg_temp.reset()")


class Snapshot:
    """All rows as they were when it was made, to be put back on the same connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._number = next(_numbers)
        self._kept: list[sql.Identifier] = []
        statements = [each for table, names in self._columns() for each in self._keep(table, names)]
        body = sql.SQL("BEGIN {}; END").format(sql.SQL("; ").join(statements))
        connection.execute(
            sql.SQL("CREATE FUNCTION {}() RETURNS void LANGUAGE plpgsql AS {}").format(
                self._function, sql.Literal(body.as_string(connection))
            )
        )

    def restore(self) -> None:
        """Replace all rows by those that were kept."""
        self._connection.execute(sql.SQL("SELECT {}()").format(self._function))

    def drop(self) -> None:
        """Keep the rows no longer."""
        for kept in self._kept:
            self._connection.execute(sql.SQL("DROP TABLE {}").format(kept))
        self._connection.execute(sql.SQL("DROP FUNCTION {}()").format(self._function))

    @property
    def _function(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", f"restore_{self._number}")

    def _columns(self) -> list[Any]:
        """Return each table with the names of the columns that are not generated."""
        return self._connection.execute(
            "SELECT c.relname, array_agg(quote_ident(a.attname) ORDER BY a.attnum) FROM pg_class c "
            "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace "
            "AND c.relkind = 'r' AND c.relname <> ALL(%s) AND a.attnum > 0 AND NOT a.attisdropped "
            "AND a.attgenerated = '' GROUP BY 1",
            [list(KEPT)],
        ).fetchall()

    def _keep(self, table: str, names: list[LiteralString]) -> Iterator[sql.Composed]:
        """Keep the rows of a table, and yield the statements that put them back."""
        name, given = sql.Identifier(table), sql.SQL(", ".join(names))
        yield sql.SQL("DELETE FROM {}").format(name)
        if self._connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(name)).fetchone() is None:
            return
        kept = sql.Identifier("pg_temp", f"kept_{self._number}_{table}")
        self._connection.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(kept, name))
        self._kept.append(kept)
        insert = "INSERT INTO {} ({given}) OVERRIDING SYSTEM VALUE SELECT {given} FROM {}"
        yield sql.SQL(insert).format(name, kept, given=given)
