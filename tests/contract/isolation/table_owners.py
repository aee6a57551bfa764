"""Whose the rows of each table are."""

from functools import cache
from typing import Any

import psycopg
from psycopg import sql as composing

from models.base import Base

WITHOUT_OWNER = {
    "sessions",
    "signing_keys",
    "webhook_deliveries",
    "webhook_log",
    "periodic_tasks",
    "github_api_usage",
    "throttled_attempts",
    "lease_holders",
    "used_trials",
    "trial_hash_keys",
    "stripe_prices",
    "stripe_catalogues",
    "oauth_clients",
    "database_identity",
}
"""Tables whose rows belong to no organisation; what the application may do with them is tested all the same."""
BELONG_TO_MEMBERS = {"users"}
"""Tables whose rows an organisation sees as long as they are of its members."""
NEVER_SEEN = {"mails", "device_authorizations", "oauth_codes", "oauth_refresh_tokens", "freeze_versions"}
"""Tables that the application may not read."""


@cache
def owned_tables() -> dict[str, str]:
    """Return the column with the owner of a row, for each table with rows of people."""
    every = {table.name for table in Base.metadata.sorted_tables}
    tables = sorted(every - WITHOUT_OWNER - BELONG_TO_MEMBERS)
    return {name: "id" if name == "organizations" else "organization_id" for name in tables}


def rows_of(connection: psycopg.Connection[Any], organization_id: str) -> dict[str, list[str]]:
    """Return all rows of an organisation as JSON, by table."""
    tables = [
        composing.SQL("SELECT {}, to_jsonb(t)::text FROM {} t WHERE {} = %(organization)s").format(
            composing.Literal(table), composing.Identifier(table), composing.Identifier(column)
        )
        for table, column in owned_tables().items()
    ]
    query = composing.SQL(" UNION ALL ").join(tables) + composing.SQL(" ORDER BY 1, 2")
    found: dict[str, list[str]] = {table: [] for table in owned_tables()}
    for table, row in connection.execute(query, {"organization": organization_id}):
        found[table].append(row)
    return found
