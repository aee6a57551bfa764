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
from sqlalchemy.pool import NullPool

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


OWN_CHECKS = "0014"
OLD_BRANCHES = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    VALUES ('rep_1', 'org_1', 1, 7, 'R_7', 'acme', 'web', 'main', true, now(), now());
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    VALUES ('wbr_1', 'org_1', 'rep_1', 'main', 'change-freeze/main', now()),
           ('wbr_2', 'org_1', 'rep_1', 'release/1', 'change-freeze/release/*', now());
    INSERT INTO branch_enforcement (branch_id, organization_id, light, required, integration_pinned, verified_at)
    SELECT id, organization_id, 'green', true, true, now() FROM watched_branches;
"""


def test_branches_of_patterns_get_checks_of_their_own(unmigrated_database: str) -> None:
    """The owner of the tables is no superuser, and row-level security is forced on it."""
    engine = create_engine(unmigrated_database, poolclass=NullPool)

    def upgrade(revision: str, role: str | None = None) -> None:
        with engine.connect() as connection:
            if role is not None:
                connection.exec_driver_sql(f"SET ROLE {role}")
                connection.commit()
            CONFIG.attributes["connection"] = connection
            command.upgrade(CONFIG, revision)

    upgrade(REVISIONS[REVISIONS.index(OWN_CHECKS) - 1])
    with engine.begin() as connection:
        connection.exec_driver_sql(OLD_BRANCHES)
        connection.exec_driver_sql("DROP ROLE IF EXISTS plain_owner")
        connection.exec_driver_sql("CREATE ROLE plain_owner NOSUPERUSER")
        connection.exec_driver_sql("GRANT CREATE, USAGE ON SCHEMA public TO plain_owner")
        tables = connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all()
        for table in tables:
            connection.exec_driver_sql(f"ALTER TABLE {table} OWNER TO plain_owner")
    upgrade(OWN_CHECKS, "plain_owner")
    with engine.begin() as connection:
        branches = text("SELECT check_name, pattern_check_name, due_at IS NOT NULL FROM watched_branches ORDER BY id")
        assert [tuple(row) for row in connection.execute(branches)] == [
            ("change-freeze/main", None, False),
            ("change-freeze/release/1", "change-freeze/release/*", True),
        ]
        lights = text("SELECT light, own_rule, due_at IS NOT NULL, findings #>> '{0,code}' FROM branch_enforcement")
        assert {tuple(row) for row in connection.execute(lights)} == {
            ("green", True, False, None),
            ("amber", False, True, "own_check_not_required"),
        }
        connection.exec_driver_sql("DROP OWNED BY plain_owner CASCADE")
        connection.exec_driver_sql("DROP ROLE plain_owner")
    engine.dispose()
