"""Rules of exceptions over HTTP: who may write them, on which plan, and what the audit log has."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from services.exception_rules.changes import MAX_RULES
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.exception_rules.rules import DOCS, RULES, WANTED, new_rule, path_of, writable
from tests.handlers.people import through_pages
from tests.harness.clock import MovableClock
from tests.harness.mcp_client import McpClient
from tests.harness.wakeups import RecordedWakeups

pytestmark = pytest.mark.usefixtures("web")


def generations(session: Session) -> list[int]:
    session.rollback()
    return list(session.scalars(text("SELECT wanted_generation FROM checks ORDER BY id")))


class TestCreateExceptionRule:
    def test_rule_is_shown_as_it_was_sent(self, admin: Caller) -> None:
        made = new_rule(admin)
        assert writable(made) == {**WANTED, "enabled": True}
        assert (made["uses"], made["lastUsedAt"], made["identities"]) == (0, None, [])
        assert admin.get(path_of(made)).json() == made

    def test_agents_read_rules(self, acme: Tenant, admin: Caller) -> None:
        made = new_rule(admin)
        agent = McpClient(acme.key("exception:read"))
        assert agent.call("svc_list_exception_rules").structured["data"] == [made]
        found = agent.call("svc_get_exception_rule", ruleId=made["id"]).structured
        assert {name: found[name] for name in made} == made
        assert agent.call("svc_get_exception_rule", ruleId="exr_none").code == "exception_rule_not_found"

    def test_organization_has_a_limited_number_of_rules(self, acme: Tenant, admin: Caller, session: Session) -> None:
        for _ in range(MAX_RULES - 1):
            factories.exception_rule(session, acme.organization)
        made = new_rule(admin)
        error = refusal(admin.post(RULES, {**WANTED, "name": "One more"}), 409, "invalid_state")
        assert str(MAX_RULES) in error["message"]
        assert admin.delete(path_of(made)).status_code == 204
        new_rule(admin)

    def test_names_are_unique_in_whatever_case(self, admin: Caller, globex: Tenant) -> None:
        new_rule(admin)
        error = refusal(admin.post(RULES, {**WANTED, "name": "documentation ONLY"}), 409, "already_exists")
        assert [row["path"] for row in error["details"]] == ["/name"]
        other = new_rule(admin, name="Hotfixes")
        refusal(admin.patch(path_of(other), {"name": "DOCUMENTATION only"}), 409, "already_exists")
        assert admin.patch(path_of(other), {"name": "HOTFIXES"}).status_code == 200


class TestListExceptionRules:
    def test_rules_of_the_organization_are_listed_newest_first(
        self, acme: Tenant, admin: Caller, session: Session, globex: Tenant
    ) -> None:
        factories.exception_rule(session, globex.organization)
        ids = [new_rule(admin, name=f"Rule {n}")["id"] for n in range(3)]
        assert [row["id"] for row in through_pages(admin, RULES)] == ids[::-1]

    def test_uses_count_pull_requests_and_leave_the_entity_tag(
        self, acme: Tenant, admin: Caller, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        made = new_rule(admin)
        tag = admin.get(path_of(made)).headers["ETag"]
        other = factories.freeze(session, acme.organization, [web])
        of_rule = {"rule_id": made["id"], "rule_name": made["name"]}
        granted = [factories.exception(session, one, pull, web, **of_rule) for one in (freeze, other)]
        shown = admin.get(path_of(made))
        assert (shown.json()["uses"], shown.headers["ETag"]) == (1, tag)
        assert shown.json()["lastUsedAt"] is not None
        listed = acme.key().get("/v1/exceptions", ruleId=made["id"]).json()["data"]
        assert {row["id"] for row in listed} == {row.id for row in granted}
        assert {(row["source"], row["ruleId"], row["ruleName"]) for row in listed} == {
            ("rule", made["id"], made["name"])
        }
        refusal(admin.get("/v1/exceptions", ruleId="exr_00000000000000000000000000"), 404, "exception_rule_not_found")


class TestUpdateExceptionRule:
    def test_what_is_shown_can_be_sent_and_changes_nothing(
        self, acme: Tenant, admin: Caller, session: Session, web: WatchedBranch
    ) -> None:
        schedule = factories.schedule(session, acme.organization)
        scope = {"type": "branch", "branchId": web.id}
        made = new_rule(admin, appliesTo={"scope": scope, "freezes": "schedules", "scheduleIds": [schedule.id]})
        assert answered(admin.patch(path_of(made), writable(made))) == made
        assert acme.audit() == ["exception_rule.created"]

    def test_change_is_audited_with_the_whole_rule(self, admin: Caller, session: Session, clock: MovableClock) -> None:
        made = new_rule(admin)
        clock.offset += timedelta(minutes=5)
        changed = admin.patch(path_of(made), {"limits": {"perFreeze": None}, "enabled": False}).json()
        assert changed == {**made, "limits": {"perFreeze": None}, "enabled": False, "updatedAt": changed["updatedAt"]}
        assert changed["updatedAt"] > made["updatedAt"]
        entry = factories.audit_entries(session)[-1]
        assert entry.action == "exception_rule.changed"
        assert entry.target == {"type": "exception_rule", "id": made["id"], "name": "Documentation only"}
        assert entry.details["before"] == {**writable(made), "identities": []}
        assert entry.details["after"] == {**writable(changed), "identities": []}

    def test_stale_change_or_deletion_is_refused(self, admin: Caller) -> None:
        made = new_rule(admin)
        stale = {"If-Match": admin.get(path_of(made)).headers["ETag"]}
        current = admin.patch(path_of(made), {"name": "Docs"}, headers=stale).headers["ETag"]
        refusal(admin.patch(path_of(made), {"name": "Other"}, headers=stale), 412, "precondition_failed")
        refusal(admin.delete(path_of(made), headers=stale), 412, "precondition_failed")
        assert admin.delete(path_of(made), headers={"If-Match": current}).status_code == 204

    def test_plan_gates_everything_but_disabling_and_deleting(self, globex: Tenant, session: Session) -> None:
        free = globex.person("admin")
        rule = {"id": factories.exception_rule(session, globex.organization, enabled=False, name="Docs").id}
        for body in ({"enabled": True}, {"name": "Other"}, {"enabled": False, "allow": {"any": [DOCS]}}):
            refusal(free.patch(path_of(rule), body), 403, "feature_not_available")
        refusal(free.post(RULES, WANTED), 403, "feature_not_available")
        shown = free.get(path_of(rule)).json()
        assert free.patch(path_of(rule), {**writable(shown), "enabled": False}).status_code == 200
        session.execute(text("UPDATE exception_rules SET enabled = true"))
        session.commit()
        assert free.patch(path_of(rule), {"enabled": False}).json()["enabled"] is False
        assert free.delete(path_of(rule)).status_code == 204


class TestDeleteExceptionRule:
    def test_deletion_is_audited_and_exceptions_keep_the_name(
        self, admin: Caller, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        made = new_rule(admin)
        of_rule: dict[str, Any] = {"rule_id": made["id"], "rule_name": made["name"]}
        row: PullRequestException = factories.exception(session, freeze, pull, web, **of_rule)
        assert admin.delete(path_of(made)).status_code == 204
        refusal(admin.get(path_of(made)), 404, "exception_rule_not_found")
        entry = factories.audit_entries(session)[-1]
        assert entry.action == "exception_rule.deleted"
        assert entry.details == {"before": {**writable(made), "identities": []}, "after": None}
        shown = admin.get(f"/v1/exceptions/{row.id}").json()
        assert (shown["source"], shown["ruleId"], shown["ruleName"]) == ("rule", None, made["name"])


class TestJudgedAgain:
    def test_frozen_branches_are_judged_again_after_each_change(
        self, acme: Tenant, admin: Caller, session: Session, freeze: Freeze, wakeups: RecordedWakeups
    ) -> None:
        factories.branch(session, acme.repository("api"))
        seen = [generations(session)]
        made = new_rule(admin)
        seen.append(generations(session))
        admin.patch(path_of(made), {"enabled": False})
        seen.append(generations(session))
        admin.delete(path_of(made))
        seen.append(generations(session))
        assert all(later[0] > earlier[0] and later[1:] == earlier[1:] for earlier, later in pairwise(seen))
        assert "reconcile" in wakeups.sent
