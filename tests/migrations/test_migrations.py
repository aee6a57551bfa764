"""Every migration goes up and down again, and the models say what the migrations made."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.pool import NullPool

import models
from tests.harness.concurrency import Task, eventually

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
    with engine.connect() as writer, engine.connect() as watcher:
        writer.exec_driver_sql(
            "INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now())"
        )
        writer.commit()
        writer.exec_driver_sql(
            "INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)"
            " VALUES ('aud_1', 'org_1', now(), 'freeze.started', '{}', 'api', '{}', '{}')"
        )
        migrating = Task(lambda: upgrade("0004"))
        waiting = text(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'audit_entries'::regclass)"
        )
        try:
            eventually(lambda: watcher.scalar(waiting), during=migrating)
        finally:
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


IMPORT_SCOPES = "0015"
ORGANIZATION = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at, former_names)
    VALUES ('rep_1', 'org_1', 1, 7, 'R_7', 'acme', 'web', 'main', true, now(), now(), ARRAY['acme/site']);
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    VALUES ('wbr_1', 'org_1', 'rep_1', 'main', 'change-freeze/main', now());
"""
SCHEDULE = text("""
    INSERT INTO schedules (id, organization_id, name, scope, timezone, recurrence, wall_clock_window, reason,
                           exceptions_allowed, enabled, allow_overlap, source, import_key, import_digest, created_by,
                           created_at, updated_at, deleted_at)
    VALUES (:id, 'org_1', :name, :scope, 'UTC', :recurrence, '{"start_time": "00:00", "end_time": "00:00", "days": 1}',
            'Stock is taken', true, true, true, 'import', :key, :digest, '{}', now(), now(), :deleted)
""")
ENTRY = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    VALUES (:id, 'org_1', CAST('2026-11-01' AS timestamptz) + :number * interval '1 minute', :action, '{}', 'api',
            jsonb_build_object('id', CAST(:target AS text)), :request, :details)
""")
ONCE = {"frequency": "once", "start_date": "2027-01-01"}
EVERYTHING = {"type": "organization"}
WEB = {"type": "repositories", "repositories": ["acme/Site"]}


def _imported(name: str = "Stock", recurrence: Any = ONCE) -> dict[str, Any]:
    window = {"start_time": "00:00", "end_time": "00:00", "days": 1}
    flags = {"exceptions_allowed": True, "allow_overlap": True}
    return {
        "name": name,
        "timezone": "UTC",
        "recurrence": recurrence,
        "window": window,
        "reason": "Stock is taken",
        **flags,
    }


def _sha(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _key(rest: str, scope: dict[str, Any] = EVERYTHING, *, kind: str = "ics") -> str:
    return f"{kind}:{_sha(scope)[:32]}:{rest}"


class TestScopesOfImports:
    """The owner of the tables is no superuser, and row-level security is forced on it."""

    @pytest.fixture
    def engine(self, unmigrated_database: str) -> Iterator[Engine]:
        engine = create_engine(unmigrated_database, poolclass=NullPool)
        self._run(engine, command.upgrade, REVISIONS[REVISIONS.index(IMPORT_SCOPES) - 1])
        with engine.begin() as connection:
            connection.exec_driver_sql(ORGANIZATION)
        yield engine
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP OWNED BY plain_importer CASCADE")
            connection.exec_driver_sql("DROP ROLE plain_importer")
        engine.dispose()

    def _run(self, engine: Engine, step: Callable[[Config, str], None], revision: str, role: str | None = None) -> None:
        with engine.connect() as connection:
            if role is not None:
                connection.exec_driver_sql(f"SET ROLE {role}")
                connection.commit()
            CONFIG.attributes["connection"] = connection
            step(CONFIG, revision)

    def _upgrade(self, engine: Engine) -> dict[str, tuple[str | None, Any]]:
        """Upgrade as a plain owner, and return key and imported terms of the schedules."""
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE ROLE plain_importer NOSUPERUSER")
            connection.exec_driver_sql("GRANT CREATE, USAGE ON SCHEMA public TO plain_importer")
            tables = connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all()
            for table in tables:
                connection.exec_driver_sql(f"ALTER TABLE {table} OWNER TO plain_importer")
        self._run(engine, command.upgrade, IMPORT_SCOPES, "plain_importer")
        with engine.begin() as connection:
            rows = connection.execute(text("SELECT id, import_key, imported FROM schedules ORDER BY id"))
            return {row.id: (row.import_key, row.imported) for row in rows}

    def _add(self, engine: Engine, schedule_id: str, key: str, **given: Any) -> None:
        """Add a schedule with what was imported; it has since got what `given` says."""
        scope, name = given.get("scope", EVERYTHING), given.get("name", "Stock")
        values = {
            "id": schedule_id,
            "name": name,
            "key": key,
            "scope": json.dumps(scope),
            "recurrence": json.dumps(given.get("recurrence", ONCE)),
            "digest": given.get("digest") or _sha({**_imported(name), "scope": scope}),
            "deleted": given.get("deleted"),
        }
        with engine.begin() as connection:
            connection.execute(SCHEDULE, values)

    def _log(self, engine: Engine, number: int, action: str, target: str, **details: Any) -> None:
        request = details.pop("request", f"req_{number}")
        values = {"id": f"aud_{number}", "number": number, "action": action, "target": target, "request": request}
        with engine.begin() as connection:
            connection.execute(ENTRY, {**values, "details": json.dumps(details)})

    def test_keys_get_the_scope_and_one_code_for_gb_and_go_back(self, engine: Engine) -> None:
        glob = {"type": "glob", "patterns": ["Acme/*"]}
        self._add(engine, "sch_1", "ics:1")
        self._add(engine, "sch_2", "ics:2", scope=WEB)
        self._add(engine, "sch_3", "ics:3\t09:00-10:00", scope=glob)
        self._add(engine, "sch_4", "ics:4", scope={"type": "branch", "branchId": "wbr_1"})
        self._add(engine, "sch_5", "ics:5", scope={"type": "branch", "repository": "acme/web", "branch": "main"})
        self._add(engine, "sch_6", "holidays:UK//public/Good Friday")
        self._add(engine, "sch_7", "holidays:GB//public/Good Friday")
        self._add(engine, "sch_8", "holidays:UK/SCT/public/Public holidays (UK-SCT)\t4 days")
        found = self._upgrade(engine)
        branch = {"type": "branch", "repository": "rep_1", "branch": "main"}
        assert found == {
            "sch_1": (_key("1"), _imported()),
            "sch_2": (_key("2", {"type": "repositories", "repositories": ["rep_1"]}), _imported()),
            "sch_3": (_key("3\t09:00-10:00", {"type": "glob", "patterns": ["acme/*"]}), _imported()),
            "sch_4": (_key("4", branch), _imported()),
            "sch_5": (_key("5", branch), _imported()),
            "sch_6": (None, None),
            "sch_7": (_key("GB//public/Good Friday", kind="holidays"), _imported()),
            "sch_8": (_key("GB/SCT/public/Public holidays (GB-SCT)\t4 days", kind="holidays"), _imported()),
        }
        with engine.begin() as connection:
            connection.execute(
                text("UPDATE schedules SET import_key = :key WHERE id = 'sch_2'"), {"key": _key("1", WEB)}
            )
        self._run(engine, command.downgrade, "-1", "plain_importer")
        with engine.begin() as connection:
            rows = connection.execute(text("SELECT id, import_key, import_digest FROM schedules ORDER BY id")).all()
        assert [row.import_key for row in rows][:5] == ["ics:1", None, "ics:3\t09:00-10:00", "ics:4", "ics:5"]
        assert rows[0].import_digest == _sha({**_imported(), "scope": EVERYTHING})

    def test_imported_terms_and_deletions_are_found_in_the_log(self, engine: Engine) -> None:
        later = {"frequency": "once", "startDate": "2027-01-02"}
        digest = _sha({**_imported(), "scope": EVERYTHING})
        edited = {"frequency": "once", "start_date": "2027-01-03"}
        self._add(engine, "edited", "ics:1", name="Ours", recurrence=edited, scope=WEB, digest=digest)
        self._add(engine, "not_in_the_log", "ics:2", name="Not in the log", digest=digest)
        first = {"name": "Stock", "scope": EVERYTHING, "recurrence": {"frequency": "once", "startDate": "2027-01-01"}}
        self._log(engine, 1, "schedule.updated", "edited", before=first, after={})
        self._log(engine, 2, "schedule.updated", "edited", before={"recurrence": later}, after={})
        self._add(engine, "by_people", "ics:3", deleted="2026-11-01")
        self._add(engine, "by_an_import", "ics:4", deleted="2026-11-02")
        self._add(engine, "by_people_before", "ics:5", deleted="2026-11-03")
        self._add(engine, "by_people_again", "ics:5", deleted="2026-11-04")
        self._add(engine, "imported_again", "ics:6", deleted="2026-11-05")
        self._add(engine, "not_deleted", "ics:6")
        for number, name in enumerate(("by_people", "by_people_before", "by_people_again", "imported_again"), start=3):
            self._log(engine, number, "schedule.deleted", name)
        self._log(engine, 8, "schedule.deleted", "by_an_import", request="req_import")
        self._log(engine, 9, "schedule.imported", "org_1", request="req_import")
        found = self._upgrade(engine)
        assert (found["edited"], found["not_in_the_log"]) == ((_key("1"), _imported()), (_key("2"), None))
        assert {name: key for name, (key, _terms) in found.items() if name not in {"edited", "not_in_the_log"}} == {
            "by_people": _key("3"),
            "by_an_import": None,
            "by_people_before": None,
            "by_people_again": _key("5"),
            "imported_again": None,
            "not_deleted": _key("6"),
        }


PLAN_GRANTS = "0016"
OLD_PLANS = """
    INSERT INTO organizations (id, name, slug, plan, settings, created_at, purged_at)
    VALUES ('org_1', 'A', 'a', 'business', '{}', now(), NULL), ('org_2', 'B', 'b', 'free', '{}', now(), NULL),
           ('org_3', 'C', 'c', 'team', '{}', now(), now());
"""


def test_stored_plans_become_grants_and_back(unmigrated_database: str) -> None:
    """The owner of the tables is no superuser, and row-level security is forced on it."""
    engine = create_engine(unmigrated_database, poolclass=NullPool)

    def run(step: Callable[[Config, str], None], revision: str, role: str | None = None) -> None:
        with engine.connect() as connection:
            if role is not None:
                connection.exec_driver_sql(f"SET ROLE {role}")
                connection.commit()
            CONFIG.attributes["connection"] = connection
            step(CONFIG, revision)

    def read(query: str) -> list[tuple[object, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    before = REVISIONS[REVISIONS.index(PLAN_GRANTS) - 1]
    run(command.upgrade, before)
    with engine.begin() as connection:
        connection.exec_driver_sql(OLD_PLANS)
        connection.exec_driver_sql("DROP ROLE IF EXISTS owner_of_plans")
        connection.exec_driver_sql("CREATE ROLE owner_of_plans NOSUPERUSER IN ROLE change_freeze_worker")
        connection.exec_driver_sql("ALTER SCHEMA public OWNER TO owner_of_plans")
        for table in connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all():
            connection.exec_driver_sql(f"ALTER TABLE {table} OWNER TO owner_of_plans")
    run(command.upgrade, PLAN_GRANTS, "owner_of_plans")
    grants = "SELECT organization_id, source, plan, until FROM plan_grants ORDER BY organization_id"
    assert read(grants) == [("org_1", "manual", "business", None)]
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO plan_grants (organization_id, source, plan, until, created_at) VALUES "
            "('org_1', 'trial', 'team', NULL, now()), ('org_2', 'trial', 'business', now(), now())"
        )
    run(command.downgrade, before, "owner_of_plans")
    plans = [("org_1", "business"), ("org_2", "free"), ("org_3", "free")]
    assert read("SELECT id, plan FROM organizations ORDER BY id") == plans
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP OWNED BY owner_of_plans CASCADE")
        connection.exec_driver_sql("DROP ROLE owner_of_plans")
    engine.dispose()
