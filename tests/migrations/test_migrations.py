"""Every migration goes up and down again, and the models say what the migrations made."""

from collections.abc import Callable
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

import models
from tests.migrations.old_database import REVISIONS, OldDatabase


def test_migrations_after_the_first_go_up_down_and_up_again(rising_database: OldDatabase) -> None:
    def run(target: str, step: Callable[[Config, str], None] = command.upgrade) -> set[str]:
        rising_database.migrate(target, step)
        return set(inspect(rising_database.engine).get_table_names())

    before = run(REVISIONS[0])
    for revision in REVISIONS[1:]:
        after = run(revision)
        assert run("-1", command.downgrade) == before
        assert run(revision) == after
        before = after


OF_THE_FORMER_RELEASE: set[tuple[str, str]] = set()
"""Tables with the columns and indexes that only its processes use; the next release removes them."""


def _name(difference: Any) -> tuple[str, str]:
    """Return the table of a difference between models and migrations, and the name of its column or index."""
    changed = difference[3] if difference[0].endswith("_column") else difference[1]
    return getattr(changed, "table", changed).name, changed.name


def test_models_agree_with_the_migrations(own_database: str) -> None:
    engine = create_engine(own_database)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [
            difference
            for difference in compare_metadata(context, models.Base.metadata)
            if _name(difference) not in OF_THE_FORMER_RELEASE
        ]
    engine.dispose()
    assert differences == []


def test_every_table_with_an_organization_forces_row_level_security(own_database: str) -> None:
    engine = create_engine(own_database)
    with engine.connect() as connection:
        open_tables = connection.scalars(
            text(
                "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                "WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attname = 'organization_id' "
                "AND NOT (c.relrowsecurity AND c.relforcerowsecurity) AND c.relname <> 'sessions'"
            )
        ).all()
    engine.dispose()
    assert open_tables == []


@pytest.mark.parametrize("role", ["change_freeze_app", "change_freeze_worker", "change_freeze_identity"])
def test_audit_can_only_be_appended_to_and_erased_by_the_worker(own_database: str, role: str) -> None:
    engine = create_engine(own_database)
    with engine.connect() as connection:
        rights = connection.scalars(
            text(
                "SELECT privilege_type FROM information_schema.role_table_grants "
                "WHERE grantee = :role AND table_name = 'audit_entries'"
            ),
            {"role": role},
        ).all()
    engine.dispose()
    erases = {"DELETE"} if role == "change_freeze_worker" else set()  # of deleted organisations, by its policy
    assert set(rights) == {"SELECT", "INSERT"} | erases
