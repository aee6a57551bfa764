"""What is polled is found by an index, also under row-level security, and credentials without planning a query.

`repositories.full_name_key` is what names are looked up by: with row-level security, conditions on expressions such as
`lower(owner || '/' || name)` are not used to search an index, since functions must not see rows of others. Adding a
generated column writes the table anew: a row for each repository, 100,000 in two seconds. The index on the expression
stays for processes of the former release.

The functions that find the credentials of programs do the same as before, in PL/pgSQL: it keeps the plan of a query,
where a function of SQL has it planned in each call, which takes half of the time.

Revision ID: 0047
Revises: 0046
"""

from alembic import op
from sqlalchemy import text

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

FULL_NAMES = """
ALTER TABLE repositories
    ADD COLUMN full_name_key TEXT GENERATED ALWAYS AS (lower(owner || '/' || name)) STORED NOT NULL;
CREATE INDEX ix_repositories_full_name_key ON repositories (organization_id, full_name_key);
"""
CREDENTIALS = ("find_api_key", "find_oauth_grant")
DEFINITION = text("""
    SELECT pg_get_function_arguments(oid), pg_get_function_result(oid), prosrc FROM pg_proc
    WHERE proname = :name AND pronamespace = 'public'::regnamespace
""")
BEFORE, AFTER = "\n#variable_conflict use_column\nBEGIN\n    RETURN QUERY", ";\nEND "


def upgrade() -> None:
    """Add the column with its index, and keep the plans of the functions."""
    op.execute(FULL_NAMES)
    for name in CREDENTIALS:
        arguments, result, body = op.get_bind().execute(DEFINITION, {"name": name}).one()
        _define(name, arguments, result, "plpgsql", f"{BEFORE}{body.rstrip()}{AFTER}")


def downgrade() -> None:
    """Drop the column, and with it its index; the functions are of SQL again."""
    for name in CREDENTIALS:
        arguments, result, body = op.get_bind().execute(DEFINITION, {"name": name}).one()
        _define(name, arguments, result, "sql", f"{body.removeprefix(BEFORE).removesuffix(AFTER)}\n")
    op.execute("ALTER TABLE repositories DROP COLUMN full_name_key")


def _define(name: str, arguments: str, result: str, language: str, body: str) -> None:
    op.execute(
        f"CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS {result} LANGUAGE {language} "
        f"STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $${body}$$"
    )
