"""Every migration goes up and down again, and the models say what the migrations made."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

import models

CONFIG = Config("alembic.ini")
REVISIONS = [script.revision for script in reversed(list(ScriptDirectory.from_config(CONFIG).walk_revisions()))]


@pytest.mark.parametrize("revision", REVISIONS)
def test_migration_goes_up_down_and_up_again(unmigrated_database: str, revision: str) -> None:
    engine = create_engine(unmigrated_database)

    def run(step: Callable[[Config, str], None], target: str) -> set[str]:
        with engine.connect() as connection:
            CONFIG.attributes["connection"] = connection
            step(CONFIG, target)
        return set(inspect(engine).get_table_names())

    position = REVISIONS.index(revision)
    before = run(command.upgrade, REVISIONS[position - 1]) if position else {"alembic_version"}
    after = run(command.upgrade, revision)
    assert run(command.downgrade, "-1") == before
    assert run(command.upgrade, revision) == after
    engine.dispose()


def test_upgrade_erases_replies_that_one_guess_decrypts(unmigrated_database: str) -> None:
    engine = create_engine(unmigrated_database)
    with engine.connect() as connection:
        CONFIG.attributes["connection"] = connection
        command.upgrade(CONFIG, "0011")
    with engine.begin() as connection:
        columns = "(organization_id, principal_id, key_hash, request_hash, status, headers, body, secret, created_at)"
        for key, secret in (("one", True), ("two", False)):
            row = "VALUES ('org', 'key', :key, :key, 201, '{}', :key, :secret, now())"
            values = {"key": key.encode(), "secret": secret}
            connection.execute(text(f"INSERT INTO idempotency_keys {columns} {row}"), values)
    with engine.connect() as connection:
        CONFIG.attributes["connection"] = connection
        command.upgrade(CONFIG, "0012")
    with engine.connect() as connection:
        bodies = connection.scalars(text("SELECT body FROM idempotency_keys ORDER BY secret")).all()
    engine.dispose()
    assert bodies == [b"two", None]


def test_models_agree_with_the_migrations(own_database: str) -> None:
    engine = create_engine(own_database)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [
            difference
            for difference in compare_metadata(context, models.Base.metadata)
            # PostgreSQL spells the expression of an index in its own way.
            if getattr(difference[1], "name", "") != "ix_repositories_full_name"
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


def test_entry_written_during_the_migration_to_seals_is_sealed(unmigrated_database: str) -> None:
    engine = create_engine(unmigrated_database)

    def upgrade(revision: str) -> None:
        with engine.connect() as connection:
            CONFIG.attributes["connection"] = connection
            command.upgrade(CONFIG, revision)

    upgrade("0003")
    with engine.connect() as writer, engine.connect() as watcher, ThreadPoolExecutor(1) as pool:
        writer.exec_driver_sql(
            "INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now())"
        )
        writer.commit()
        writer.exec_driver_sql(
            "INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)"
            " VALUES ('aud_1', 'org_1', now(), 'freeze.started', '{}', 'api', '{}', '{}')"
        )
        migrating = pool.submit(upgrade, "0004")
        waiting = text(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'audit_entries'::regclass)"
        )
        while not migrating.done() and not watcher.scalar(waiting):
            watcher.rollback()
        writer.commit()
        migrating.result()
        watcher.rollback()
        assert watcher.scalars(text("SELECT entry_id FROM audit_unsealed")).all() == ["aud_1"]
        watcher.rollback()
    engine.dispose()
