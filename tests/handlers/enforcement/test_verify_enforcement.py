"""Having branches probed again, and having a first check written where there is none."""

from models.audit import AuditEntry
from models.pull_requests import HeadCheck
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.enforcement.requests import EVERYWHERE, details_of
from tests.harness.wakeups import RecordedWakeups


class TestVerifyEnforcement:
    path = "/v1/enforcement/verify"

    def test_verify_enforcement_schedules_a_probe_of_each_branch_in_scope(
        self, acme: Tenant, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        factories.branch_enforcement(acme.session, factories.branch(acme.session, acme.repository("api")))
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        answer = answered(acme.key("repo:write").post(self.path, {"scope": scope}), 202)
        assert answer["branchCount"] == 1
        assert answer["requestedAt"].endswith("Z")
        assert "verify" in wakeups.sent
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_verify_enforcement_schedules_a_never_verified_branch(self, acme: Tenant, web: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_verify_enforcement_is_audited_once_with_its_scope(self, acme: Tenant, web: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.verify_requested"]
        details = details_of(acme.session, "enforcement.verify_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [web.id]}
        [entry] = acme.session.query(AuditEntry)
        assert (entry.target["type"], entry.target["name"]) == ("organization", "Acme")

    def test_verify_enforcement_refuses_a_scope_without_targets(self, acme: Tenant, repository: Repository) -> None:
        refusal(acme.key().post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        assert acme.audit() == []


class TestSeedCheck:
    path = "/v1/enforcement/seed-check"

    def test_seed_check_schedules_a_write_to_every_head_in_scope(
        self, acme: Tenant, repository: Repository, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        pull, new = (
            factories.pull_request(acme.session, repository, 7),
            factories.pull_request(acme.session, repository, 8),
        )
        judged = factories.head_check(acme.session, web, pull.head_sha, "success", summary_hash="x")
        entry = factories.head_check(acme.session, web, factories.sha("queue entry"), "success", summary_hash="x")
        factories.queue_entry(acme.session, web, entry.head_sha)
        gone = factories.head_check(acme.session, web, factories.sha("gone"), "failure", summary_hash="x")
        answer = answered(acme.person("admin").post(self.path, EVERYWHERE), 202)
        assert (answer["branchCount"], answer["headCount"]) == (1, 3)
        acme.session.expire_all()
        assert [row.summary_hash for row in (judged, entry, gone)] == ["", "", "x"]
        assert (
            factories.check(acme.session, web).wanted_generation > factories.check(acme.session, web).written_generation
        )
        assert factories.check(acme.session, web).due_at is not None
        assert "reconcile" in wakeups.sent
        shown = acme.key().get(f"/v1/enforcement/branches/{web.id}").json()["checks"]
        assert (shown["state"], shown["total"], shown["written"]) == ("pending", 3, 0)
        assert new.head_sha not in {row.head_sha for row in acme.session.query(HeadCheck)}

    def test_seed_check_leaves_other_branches_unchanged(self, acme: Tenant, repository: Repository) -> None:
        one, two = (factories.branch(acme.session, repository, name) for name in ("release/1", "release/2"))
        checks = [
            factories.head_check(acme.session, each, factories.sha(each.name), "success", summary_hash="x")
            for each in (one, two)
        ]
        for each in (one, two):
            factories.queue_entry(acme.session, each, factories.sha(each.name))
        scope = {"type": "branch", "repository": "acme/web", "branch": "release/1"}
        assert acme.person("admin").post(self.path, {"scope": scope}).json()["headCount"] == 1
        acme.session.expire_all()
        assert [check.summary_hash for check in checks] == ["", "x"]
        check = factories.check(acme.session, two)
        assert (check.wanted_generation, check.due_at) == (0, None)

    def test_seed_check_is_audited_once_with_its_scope(self, acme: Tenant, web: WatchedBranch) -> None:
        acme.person("admin").post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.seed_requested"]
        details = details_of(acme.session, "enforcement.seed_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [web.id], "heads": 0}

    def test_seed_check_refuses_a_scope_without_targets(self, acme: Tenant, repository: Repository) -> None:
        refusal(acme.person("admin").post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        glob = {"scope": {"type": "glob", "patterns": ["acme/[web]"]}}
        refusal(acme.person("admin").post(self.path, glob), 422, "invalid_glob")
