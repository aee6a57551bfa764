"""The migration that gives keys of imports their scope, and schedules what was imported."""

import hashlib
import json
from typing import Any

import orjson
import pytest
from alembic import command

from tests.migrations.old_database import OldDatabase

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
SCHEDULE = """
    INSERT INTO schedules (id, organization_id, name, scope, timezone, recurrence, wall_clock_window, reason,
                           exceptions_allowed, enabled, allow_overlap, source, import_key, import_digest, created_by,
                           created_at, updated_at, deleted_at)
    VALUES (:id, 'org_1', :name, :scope, 'UTC', :recurrence, '{"start_time": "00:00", "end_time": "00:00", "days": 1}',
            'Stock is taken', true, true, true, 'import', :key, :digest, '{}', now(), now(), :deleted)
"""
ENTRY = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    VALUES (:id, 'org_1', CAST('2026-11-01' AS timestamptz) + :number * interval '1 minute', :action, '{}', 'api',
            jsonb_build_object('id', CAST(:target AS text)), :request, :details)
"""
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
    @pytest.fixture(autouse=True)
    def organization(self, old_database: OldDatabase) -> None:
        old_database.upgrade_until(IMPORT_SCOPES)
        old_database.execute(ORGANIZATION)

    def _upgrade(self, old_database: OldDatabase) -> dict[str, tuple[str | None, Any]]:
        """Upgrade as a plain owner, and return key and imported terms of the schedules."""
        old_database.give_to_plain_owner()
        old_database.migrate(IMPORT_SCOPES)
        rows = old_database.rows("SELECT id, import_key, imported FROM schedules ORDER BY id")
        return {schedule_id: (key, imported) for schedule_id, key, imported in rows}

    def _add(self, old_database: OldDatabase, schedule_id: str, key: str, **given: Any) -> None:
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
        old_database.execute(SCHEDULE, values)

    def _log(self, old_database: OldDatabase, number: int, action: str, target: str, **details: Any) -> None:
        request = details.pop("request", f"req_{number}")
        values = {"id": f"aud_{number}", "number": number, "action": action, "target": target, "request": request}
        old_database.execute(ENTRY, {**values, "details": json.dumps(details)})

    def test_keys_get_the_scope_and_one_code_for_gb_and_go_back(self, old_database: OldDatabase) -> None:
        glob = {"type": "glob", "patterns": ["Acme/*"]}
        self._add(old_database, "sch_1", "ics:1")
        self._add(old_database, "sch_2", "ics:2", scope=WEB)
        self._add(old_database, "sch_3", "ics:3\t09:00-10:00", scope=glob)
        self._add(old_database, "sch_4", "ics:4", scope={"type": "branch", "branchId": "wbr_1"})
        self._add(old_database, "sch_5", "ics:5", scope={"type": "branch", "repository": "acme/web", "branch": "main"})
        self._add(old_database, "sch_6", "holidays:UK//public/Good Friday")
        self._add(old_database, "sch_7", "holidays:GB//public/Good Friday")
        self._add(old_database, "sch_8", "holidays:UK/SCT/public/Public holidays (UK-SCT)\t4 days")
        found = self._upgrade(old_database)
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
        old_database.execute("UPDATE schedules SET import_key = :key WHERE id = 'sch_2'", {"key": _key("1", WEB)})
        old_database.migrate("-1", command.downgrade)
        rows = old_database.rows("SELECT import_key, import_digest FROM schedules ORDER BY id")
        assert [key for key, _digest in rows][:5] == ["ics:1", None, "ics:3\t09:00-10:00", "ics:4", "ics:5"]
        assert rows[0][1] == _sha({**_imported(), "scope": EVERYTHING})

    def test_imported_terms_and_deletions_are_found_in_the_log(self, old_database: OldDatabase) -> None:
        later = {"frequency": "once", "startDate": "2027-01-02"}
        digest = _sha({**_imported(), "scope": EVERYTHING})
        edited = {"frequency": "once", "start_date": "2027-01-03"}
        self._add(old_database, "edited", "ics:1", name="Ours", recurrence=edited, scope=WEB, digest=digest)
        self._add(old_database, "not_in_the_log", "ics:2", name="Not in the log", digest=digest)
        first = {"name": "Stock", "scope": EVERYTHING, "recurrence": {"frequency": "once", "startDate": "2027-01-01"}}
        self._log(old_database, 1, "schedule.updated", "edited", before=first, after={})
        self._log(old_database, 2, "schedule.updated", "edited", before={"recurrence": later}, after={})
        self._add(old_database, "by_people", "ics:3", deleted="2026-11-01")
        self._add(old_database, "by_an_import", "ics:4", deleted="2026-11-02")
        self._add(old_database, "by_people_before", "ics:5", deleted="2026-11-03")
        self._add(old_database, "by_people_again", "ics:5", deleted="2026-11-04")
        self._add(old_database, "imported_again", "ics:6", deleted="2026-11-05")
        self._add(old_database, "not_deleted", "ics:6")
        for number, name in enumerate(("by_people", "by_people_before", "by_people_again", "imported_again"), start=3):
            self._log(old_database, number, "schedule.deleted", name)
        self._log(old_database, 8, "schedule.deleted", "by_an_import", request="req_import")
        self._log(old_database, 9, "schedule.imported", "org_1", request="req_import")
        found = self._upgrade(old_database)
        assert (found["edited"], found["not_in_the_log"]) == ((_key("1"), _imported()), (_key("2"), None))
        assert {name: key for name, (key, _terms) in found.items() if name not in {"edited", "not_in_the_log"}} == {
            "by_people": _key("3"),
            "by_an_import": None,
            "by_people_before": None,
            "by_people_again": _key("5"),
            "imported_again": None,
            "not_deleted": _key("6"),
        }
