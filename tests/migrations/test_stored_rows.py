"""What migrations make of rows that an older release stored."""

from alembic import command
from sqlalchemy import text

from tests.harness.concurrency import Task, eventually
from tests.migrations.old_database import OldDatabase

OWN_CHECKS, PLAN_GRANTS, PUBLIC_TEXTS = "0014", "0016", "0040"
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
FROZEN_BRANCHES = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    SELECT name, 'org_1', 1, row_number() OVER (), name, 'acme', name, 'main', name = 'private', now(), now()
    FROM unnest(ARRAY['public', 'private', 'lifted']) AS name;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT r.id || b, 'org_1', r.id, r.id || b, 'change-freeze' || b, now()
    FROM repositories r, unnest(ARRAY['/frozen', '/other']) AS b;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, exceptions_allowed,
                         impact_acknowledged, created_by)
    VALUES ('frz_1', 'org_1', 'Secret', '{}', 'manual', now(), NULL, true, true, '{}'),
           ('frz_2', 'org_1', 'Secret', '{}', 'manual', now(), now(), true, true, '{}');
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, generation)
    VALUES ('frt_1', 'org_1', 'frz_1', 'public/frozen', 1), ('frt_2', 'org_1', 'frz_1', 'private/frozen', 1),
           ('frt_3', 'org_1', 'frz_2', 'lifted/frozen', 1);
"""
OLD_PLANS = """
    INSERT INTO organizations (id, name, slug, plan, settings, created_at, purged_at)
    VALUES ('org_1', 'A', 'a', 'business', '{}', now(), NULL), ('org_2', 'B', 'b', 'free', '{}', now(), NULL),
           ('org_3', 'C', 'c', 'team', '{}', now(), now());
"""


def test_upgrade_erases_replies_that_one_guess_decrypts(old_database: OldDatabase) -> None:
    old_database.migrate("0011")
    columns = "(organization_id, principal_id, key_hash, request_hash, status, headers, body, secret, created_at)"
    for key, secret in (("one", True), ("two", False)):
        row = "VALUES ('org', 'key', :key, :key, 201, '{}', :key, :secret, now())"
        values = {"key": key.encode(), "secret": secret}
        old_database.execute(f"INSERT INTO idempotency_keys {columns} {row}", values)
    old_database.migrate("0012")
    assert old_database.rows("SELECT body FROM idempotency_keys ORDER BY secret") == [(b"two",), (None,)]


def test_entry_written_during_the_migration_to_seals_is_sealed(old_database: OldDatabase) -> None:
    old_database.migrate("0003")
    old_database.execute(
        "INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'A', 'a', '{}', now())"
    )
    with old_database.engine.connect() as writer, old_database.engine.connect() as watcher:
        writer.exec_driver_sql(
            "INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)"
            " VALUES ('aud_1', 'org_1', now(), 'freeze.started', '{}', 'api', '{}', '{}')"
        )
        migrating = Task(lambda: old_database.migrate("0004"))
        waiting = text(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'audit_entries'::regclass)"
        )
        try:
            eventually(lambda: watcher.scalar(waiting), during=migrating)
        finally:
            writer.commit()
        migrating.result()
    assert old_database.rows("SELECT entry_id FROM audit_unsealed") == [("aud_1",)]


def test_branches_of_patterns_get_checks_of_their_own(old_database: OldDatabase) -> None:
    old_database.upgrade_until(OWN_CHECKS)
    old_database.execute(OLD_BRANCHES)
    old_database.give_to_plain_owner()
    old_database.migrate(OWN_CHECKS)
    branches = "SELECT check_name, pattern_check_name, due_at IS NOT NULL FROM watched_branches ORDER BY id"
    assert old_database.rows(branches) == [
        ("change-freeze/main", None, False),
        ("change-freeze/release/1", "change-freeze/release/*", True),
    ]
    lights = "SELECT light, own_rule, due_at IS NOT NULL, findings #>> '{0,code}' FROM branch_enforcement"
    assert set(old_database.rows(lights)) == {
        ("green", True, False, None),
        ("amber", False, True, "own_check_not_required"),
    }


def test_stored_plans_become_grants_and_back(old_database: OldDatabase) -> None:
    old_database.upgrade_until(PLAN_GRANTS)
    old_database.execute(OLD_PLANS)
    old_database.give_to_plain_owner()
    old_database.migrate(PLAN_GRANTS)
    grants = "SELECT organization_id, source, plan, until FROM plan_grants ORDER BY organization_id"
    assert old_database.rows(grants) == [("org_1", "manual", "business", None)]
    old_database.execute(
        "INSERT INTO plan_grants (organization_id, source, plan, until, created_at) VALUES "
        "('org_1', 'trial', 'team', NULL, now()), ('org_2', 'trial', 'business', now(), now())"
    )
    old_database.migrate("-1", command.downgrade)
    plans = [("org_1", "business"), ("org_2", "free"), ("org_3", "free")]
    assert old_database.rows("SELECT id, plan FROM organizations ORDER BY id") == plans


def test_frozen_branches_of_public_repositories_are_due_after_the_upgrade(old_database: OldDatabase) -> None:
    old_database.upgrade_until(PUBLIC_TEXTS)
    old_database.execute(FROZEN_BRANCHES)
    old_database.give_to_plain_owner()
    old_database.migrate(PUBLIC_TEXTS)
    due = "SELECT name, due_at <= now(), reread_at > now() FROM watched_branches WHERE due_at IS NOT NULL ORDER BY name"
    assert old_database.rows(due) == [("public/frozen", True, True), ("public/other", True, True)]
