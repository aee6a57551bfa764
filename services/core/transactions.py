"""What every transaction sets with its first statement: role, organisation, time zone and timeouts.

They end with the transaction. Nothing is left to start-up options or to the session: a connection pooler may drop the
former, and give each transaction another session.
"""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy.exc
from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session

_BEGAN_AT = "transaction_began_at"


def set_in_every_transaction(engine: Engine, settings: Mapping[str, str]) -> None:
    """Begin every transaction of the engine with these settings of PostgreSQL, among them `role`.

    The same statement sets the organisation, and whether the transaction is read-only, from the connection's execution
    options `organization_id` and `read_only`. Without an organisation row-level security shows no rows.
    """
    constant = "".join(f", set_config('{name}', '{value}', true)" for name, value in settings.items())
    # As one column: SQLAlchemy and psycopg describe each column anew, which took as long as the statement.
    statement = (
        "SELECT clock_timestamp(), num_nulls(set_config('app.organization_id', %(organization_id)s, true), "
        f"set_config('transaction_read_only', %(read_only)s, true){constant})"
    )

    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        parameters = {
            "organization_id": options.get("organization_id") or "",
            "read_only": "on" if options.get("read_only") else "off",
        }
        connection.info[_BEGAN_AT] = connection.exec_driver_sql(statement, parameters).one()[0]

    event.listen(engine, "begin", begin)


def begin(session: Session, organization_id: str | None, *, read_only: bool = False) -> datetime:
    """Begin the session's transaction for an organisation, or for none, and return the database's time.

    A pooled connection that has died is replaced once: nothing has happened on it yet.
    """
    options = {"organization_id": organization_id, "read_only": read_only}
    try:
        connection = session.connection(execution_options=options)
    except sqlalchemy.exc.DBAPIError as error:
        if not error.connection_invalidated:
            raise
        session.rollback()
        connection = session.connection(execution_options=options)
    began_at: datetime = connection.info[_BEGAN_AT]
    return began_at
