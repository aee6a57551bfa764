"""The key of an imported schedule includes its scope, and what was imported is kept for each term.

What was imported is known where the digest that the last import stored is that of a schedule's present terms, or of
those before later changes in the audit log. Elsewhere it stays unknown, and the next import changes nothing of such a
schedule. A deleted schedule keeps its key only if a person deleted it, since imports do not create it again; where
several schedules have one key, the newest that is not deleted keeps it. `UK` becomes `GB`.

Row-level security does not except the owner of the tables, so it is suspended for the statements that read and change
rows.

Revision ID: 0015
Revises: 0014
"""

import hashlib
import re
from typing import Any

import orjson
from alembic import op
from sqlalchemy import Connection, Row, text

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = ("schedules", "audit_entries", "repositories", "watched_branches")
TERMS = ("name", "timezone", "recurrence", "window", "reason", "exceptions_allowed", "allow_overlap")
NESTED = frozenset({"recurrence", "window"})

FORGET_DELETED = """
UPDATE schedules s SET import_key = NULL, import_digest = NULL
WHERE s.deleted_at IS NOT NULL AND s.import_key IS NOT NULL AND NOT EXISTS (
    SELECT FROM audit_entries d
    WHERE d.organization_id = s.organization_id AND d.target_id = s.id AND d.action = 'schedule.deleted'
    AND NOT EXISTS (
        SELECT FROM audit_entries i
        WHERE i.organization_id = d.organization_id AND i.action = 'schedule.imported' AND i.request_id = d.request_id
    )
)
"""
IMPORTED = """
SELECT id, organization_id, import_key, import_digest, scope, name, timezone, recurrence, wall_clock_window AS window,
       reason, exceptions_allowed, allow_overlap
FROM schedules WHERE import_key IS NOT NULL
ORDER BY deleted_at DESC NULLS FIRST, import_key, id DESC
"""
CHANGES = """
SELECT details -> 'before' FROM audit_entries
WHERE organization_id = :organization AND target_id = :id AND action = 'schedule.updated' ORDER BY at DESC, id DESC
"""
REPOSITORY = """
SELECT id FROM repositories
WHERE organization_id = :organization AND (id = :reference OR removed_at IS NULL AND (
    lower(owner || '/' || name) = lower(:reference) OR former_names @> ARRAY[lower(:reference)]
))
ORDER BY id = :reference DESC, lower(owner || '/' || name) = lower(:reference) DESC, created_at DESC, id DESC LIMIT 1
"""
BRANCH = "SELECT repository_id, name FROM watched_branches WHERE organization_id = :organization AND id = :id"
STORE = "UPDATE schedules SET import_key = :key, imported = CAST(:imported AS JSONB) WHERE id = :id"
OLD_KEYS = r"""
UPDATE schedules SET import_key = regexp_replace(import_key, '^([^:]*):[0-9a-f]{32}:', '\1:')
WHERE import_key IS NOT NULL;
UPDATE schedules s SET import_key = NULL
WHERE EXISTS (
    SELECT FROM schedules other
    WHERE other.organization_id = s.organization_id AND other.import_key = s.import_key AND other.id < s.id
    AND other.deleted_at IS NULL AND s.deleted_at IS NULL
);
"""


def upgrade() -> None:
    _force_row_level_security(on=False)
    op.execute("DROP INDEX uq_schedules_import_key")
    op.execute("ALTER TABLE schedules ADD COLUMN imported JSONB")
    op.execute(FORGET_DELETED)
    _store_keys_and_terms(op.get_bind())
    op.execute("ALTER TABLE schedules DROP COLUMN import_digest")
    op.execute(
        "CREATE UNIQUE INDEX uq_schedules_import_key ON schedules (organization_id, import_key) "
        "WHERE import_key IS NOT NULL"
    )
    _force_row_level_security(on=True)


def downgrade() -> None:
    _force_row_level_security(on=False)
    op.execute("DROP INDEX uq_schedules_import_key")
    op.execute("ALTER TABLE schedules ADD COLUMN import_digest TEXT")
    op.execute(OLD_KEYS)
    connection = op.get_bind()
    for row in connection.execute(text("SELECT id, scope, imported FROM schedules WHERE imported IS NOT NULL")).all():
        digest = _digest({**row.imported, "scope": row.scope})
        statement = text("UPDATE schedules SET import_digest = :digest WHERE id = :id")
        connection.execute(statement, {"digest": digest, "id": row.id})
    op.execute("ALTER TABLE schedules DROP COLUMN imported")
    op.execute(
        "CREATE UNIQUE INDEX uq_schedules_import_key ON schedules (organization_id, import_key) "
        "WHERE import_key IS NOT NULL AND deleted_at IS NULL"
    )
    _force_row_level_security(on=True)


def _force_row_level_security(*, on: bool) -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} {'FORCE' if on else 'NO FORCE'} ROW LEVEL SECURITY")


def _store_keys_and_terms(connection: Connection) -> None:
    taken: set[tuple[str, str]] = set()
    for row in connection.execute(text(IMPORTED)).all():
        imported, scope = _as_imported(connection, row)
        kind, _, uid = row.import_key.partition(":")
        scope_digest = _digest(_normalized(connection, row.organization_id, scope))[:32]
        key: str | None = f"{kind}:{scope_digest}:{_with_one_code(uid) if kind == 'holidays' else uid}"
        if (row.organization_id, str(key)) in taken:
            key = imported = None
        taken.add((row.organization_id, str(key)))
        values = {"id": row.id, "key": key, "imported": imported and orjson.dumps(imported).decode()}
        connection.execute(text(STORE), values)


def _as_imported(connection: Connection, row: Row[Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the terms, or None, and the scope as they were imported: the present ones, or earlier ones."""
    terms = {name: getattr(row, name) for name in (*TERMS, "scope")}
    if _digest(terms) == row.import_digest:
        return {name: terms[name] for name in TERMS}, terms["scope"]
    values = {"organization": row.organization_id, "id": row.id}
    for before in connection.scalars(text(CHANGES), values).all():
        for name, value in before.items():
            terms[_snake(name)] = {_snake(key): item for key, item in value.items()} if name in NESTED else value
        if _digest({name: terms[name] for name in (*TERMS, "scope")}) == row.import_digest:
            return {name: terms[name] for name in TERMS}, terms["scope"]
    return None, row.scope


def _normalized(connection: Connection, organization: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a scope with ids in place of the names of repositories, and patterns in lower case."""

    def repository(reference: str) -> str:
        values = {"organization": organization, "reference": reference}
        return connection.scalar(text(REPOSITORY), values) or reference.lower()

    if scope["type"] == "repositories":
        return {**scope, "repositories": sorted(set(map(repository, scope["repositories"])))}
    if scope["type"] == "glob":
        return {**scope, "patterns": [pattern.lower() for pattern in scope["patterns"]]}
    if "branchId" in scope:
        values = {"organization": organization, "id": scope["branchId"]}
        found = connection.execute(text(BRANCH), values).one_or_none()
        return {"type": "branch", "repository": found[0], "branch": found[1]} if found else scope
    if scope["type"] == "branch":
        return {**scope, "repository": repository(scope["repository"])}
    return scope


def _with_one_code(uid: str) -> str:
    """Return the identity of a holiday with the code `GB` in place of `UK`."""
    if not uid.startswith("UK/"):
        return uid
    return re.sub(r"^(GB/[^/]*/[a-z]+/(?:Public holidays|Observances) \()UK", r"\1GB", f"GB/{uid.removeprefix('UK/')}")


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
