"""Planning the rules that make freezes block, and having them written."""

from typing import Any

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.access_checks import what_github_refuses
from tests.handlers.callers import Tenant, refusal
from tests.handlers.enforcement.requests import EVERYWHERE
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github import FakeGitHub

PLAN, APPLY = {**EVERYWHERE, "mode": "plan"}, {**EVERYWHERE, "mode": "apply"}


class TestSetupEnforcement:
    path = "/v1/enforcement/setup"

    def test_plan_shows_the_missing_ruleset_and_changes_nothing(
        self, acme: Tenant, web: WatchedBranch, fake_github: FakeGitHub, wakeups: RecordedWakeups
    ) -> None:
        body = {"scope": {"type": "branch", "branchId": web.id}, "mode": "plan"}
        shown = acme.person("admin").post(self.path, body).json()
        assert (shown["mode"], shown["state"], shown["level"]) == ("plan", "planned", "repository")
        [change] = shown["changes"]
        after, diff = change.pop("after"), change.pop("diff")
        assert change["branches"][0].pop("stopGaps")[0]["code"] == "no_permission"
        assert change == {
            "action": "create",
            "level": "repository",
            "account": "acme",
            "repository": "acme/web",
            "checkName": "change-freeze/main",
            "branches": [{"branchId": web.id, "repository": "acme/web", "branch": "main", "canStop": False}],
            "rulesetId": None,
            "before": None,
        }
        [rule] = after["rules"]
        assert rule["parameters"]["required_status_checks"] == [{"context": "change-freeze/main", "integration_id": 1}]
        assert after["conditions"]["ref_name"]["include"] == ["refs/heads/main"]
        assert '+  "enforcement": "active"' in diff
        assert fake_github.world.rulesets == {}
        assert "setup" not in wakeups.sent

    def test_plan_with_protection_from_deletion_shows_its_rule(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {"scope": {"type": "branch", "branchId": web.id}, "mode": "plan", "protectFromDeletion": True}
        [change] = acme.person("admin").post(self.path, body).json()["changes"]
        assert {"type": "deletion"} in change["after"]["rules"]
        assert '+      "type": "deletion"' in change["diff"]

    def test_protection_from_deletion_must_be_a_boolean(self, acme: Tenant, web: WatchedBranch) -> None:
        answer = acme.person("admin").post(self.path, {**PLAN, "protectFromDeletion": "yes"})
        assert refusal(answer, 422, "validation_failed")["details"][0]["path"] == "/protectFromDeletion"

    def test_plan_for_several_repositories_uses_one_organization_ruleset(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        api = factories.branch(acme.session, acme.repository("api"))
        shown = acme.person("owner").post(self.path, PLAN).json()
        assert shown["level"] == "organization"
        [change] = [each for each in shown["changes"] if each["checkName"] == "change-freeze/main"]
        assert (change["level"], change["repository"]) == ("organization", None)
        assert {row["branchId"] for row in change["branches"]} == {web.id, api.id}
        assert len(change["after"]["conditions"]["repository_id"]["repository_ids"]) == 2

    def test_apply_is_queued_for_a_job_and_audited_once(
        self, acme: Tenant, repository: Repository, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        repository.rulesets_authorized_by, repository.rulesets_authorized_at = "root", factories.now()
        acme.session.flush()
        shown = acme.person("admin").post(self.path, APPLY).json()
        assert (shown["mode"], shown["state"]) == ("apply", "applying")
        assert "setup" in wakeups.sent
        assert acme.key().get("/v1/enforcement").json()["pending"]["setup"] == 1
        assert acme.audit() == ["enforcement.setup_requested"]

    def test_first_apply_requires_administrator_authorization(
        self, acme: Tenant, web: WatchedBranch, fake_github: FakeGitHub, wakeups: RecordedWakeups
    ) -> None:
        error = refusal(acme.person("admin").post(self.path, APPLY), 409, "admin_authorization_required")
        [row] = error["details"]
        assert "acme/web" in error["message"]
        assert row["authorizationUrl"].startswith("http")
        assert "setup" not in wakeups.sent
        assert fake_github.world.rulesets == {}
        assert acme.audit() == ["enforcement.authorization_requested"]

    def test_apply_without_app_permission_requires_administrator_authorization(
        self, acme: Tenant, web: WatchedBranch, fake_github: FakeGitHub
    ) -> None:
        installation = fake_github.world.installations[acme.installation.id]
        installation.permissions = {**installation.permissions, "administration": "read"}
        del installation.permissions["organization_administration"]
        person = acme.person("admin")
        assert person.post(self.path, PLAN).json()["state"] == "planned"
        error = refusal(person.post(self.path, APPLY), 409, "admin_authorization_required")
        [row] = error["details"]
        assert (row["path"], row["code"]) == ("/scope", "admin_authorization_required")
        assert row["authorizationUrl"].startswith("http")
        assert row["expiresAt"].endswith("Z")

    def test_setup_enforcement_refuses_a_scope_without_targets(self, acme: Tenant, repository: Repository) -> None:
        person = acme.person("admin")
        refusal(person.post(self.path, PLAN), 422, "no_targets_in_scope")
        glob = {"scope": {"type": "glob", "patterns": ["acme/[web]"]}, "mode": "plan"}
        refusal(person.post(self.path, glob), 422, "invalid_glob")

    def test_setup_enforcement_requires_scope_and_mode(self, acme: Tenant, web: WatchedBranch) -> None:
        cases: list[tuple[dict[str, Any], int, str]] = [
            ({"scope": {"type": "organization"}}, 400, "missing_parameter"),
            ({"scope": {"type": "organization"}, "mode": "now"}, 422, "validation_failed"),
            ({"mode": "plan"}, 400, "missing_parameter"),
        ]
        for body, status, code in cases:
            refusal(acme.person("admin").post(self.path, body), status, code)

    @what_github_refuses
    def test_setup_enforcement_reports_the_error_of_github(
        self, acme: Tenant, web: WatchedBranch, fake_github: FakeGitHub, fault: dict[str, Any], status: int, code: str
    ) -> None:
        fake_github.faults.add("error", "GET /repos/acme/web/rulesets", **fault)
        refusal(acme.person("admin").post(self.path, PLAN), status, code)
