"""Emptying a database between tests, in a quarter of a millisecond, or filling it again with what a module shares."""

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
KEPT = ("alembic_version", "database_identity", "lease_unit")
"""Tables whose rows are of the database itself."""


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


def define_snapshot(connection: psycopg.Connection[Any]) -> None:
    """Keep all rows as they are now, and define what `restore` calls on this connection."""
    columns = connection.execute(
        "SELECT c.relname, array_agg(quote_ident(a.attname) ORDER BY a.attnum) FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' "
        "AND c.relname <> ALL(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' GROUP BY 1",
        [list(KEPT)],
    ).fetchall()
    statements = []
    for table, names in columns:
        kept, name = sql.Identifier("pg_temp", f"kept_{table}"), sql.Identifier(table)
        given = sql.SQL(", ".join(names))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(kept))
        connection.execute(sql.SQL("CREATE TEMP TABLE {} AS TABLE {}").format(sql.Identifier(f"kept_{table}"), name))
        statements += [
            sql.SQL("DELETE FROM {}").format(name),
            sql.SQL("INSERT INTO {} ({given}) OVERRIDING SYSTEM VALUE SELECT {given} FROM {}").format(
                name, kept, given=given
            ),
        ]
    body = sql.SQL("BEGIN {}; END").format(sql.SQL("; ").join(statements))
    connection.execute(
        sql.SQL("CREATE OR REPLACE FUNCTION pg_temp.restore() RETURNS void LANGUAGE plpgsql AS {}").format(
            sql.Literal(body.as_string(connection))
        )
    )


def restore(connection: psycopg.Connection[Any]) -> None:
    """Replace all rows by those of the last snapshot."""
    connection.execute("SELECT pg_temp.restore()")
