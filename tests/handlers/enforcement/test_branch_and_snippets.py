"""What is known of the enforcement of one branch, and snippets that would set it up."""

from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, refusal


class TestGetBranchEnforcement:
    def test_get_branch_enforcement_adds_check_progress_to_the_list_entry(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        shown = acme.key().get(f"/v1/enforcement/branches/{web.id}").json()
        checks = shown.pop("checks")
        assert [shown] == acme.key().get("/v1/enforcement").json()["data"]
        assert checks == {"state": "written", "total": 0, "written": 0, "lastError": None}

    def test_head_counts_as_written_only_when_the_check_is_confirmed(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        pulls = [factories.pull_request(acme.session, repository, number) for number in range(4)]
        factories.pull_request(acme.session, repository, 9, state="closed")
        factories.pull_request(acme.session, repository, 10, base_branch="release/1")
        factories.head_check(acme.session, web, pulls[0].head_sha, "failure", summary_hash="x")
        factories.head_check(acme.session, web, pulls[1].head_sha, "failure", summary_hash="")
        factories.head_check(acme.session, web, pulls[2].head_sha, "success", summary_hash="x", unconfirmed=True)
        factories.head_check(acme.session, web, factories.sha("queue entry"), "success", summary_hash="x")
        factories.queue_entry(acme.session, web, factories.sha("queue entry"))
        factories.head_check(acme.session, web, factories.sha("gone"), "failure", summary_hash="x")
        factories.check(acme.session, web).wanted_generation = 3
        acme.session.flush()
        checks = acme.key().get(f"/v1/enforcement/branches/{web.id}").json()["checks"]
        assert checks == {"state": "pending", "total": 5, "written": 2, "lastError": None}

    def test_branch_enforcement_reports_github_errors_except_limits_as_failed(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        factories.check(acme.session, web).wanted_generation = 1
        for code, state in (("github_unavailable", "failed"), ("github_rate_limited", "pending")):
            check = factories.check(acme.session, web)
            check.last_error_code, check.last_error_message = code, "GitHub did not answer."
            acme.session.flush()
            checks = acme.key().get(f"/v1/enforcement/branches/{web.id}").json()["checks"]
            assert checks["state"] == state
            assert checks["lastError"] == {"code": code, "message": "GitHub did not answer."}

    def test_get_branch_enforcement_covers_a_disabled_repository(self, acme: Tenant) -> None:
        branch = factories.branch(acme.session, acme.repository("off", enabled=False))
        assert acme.key().get(f"/v1/enforcement/branches/{branch.id}").status_code == 200

    def test_get_branch_enforcement_is_not_found_when_unwatched_or_foreign(
        self, acme: Tenant, globex: Tenant, repository: Repository
    ) -> None:
        old = factories.branch(acme.session, repository, "old", unwatched_at=factories.now())
        foreign = factories.branch(acme.session, globex.repository("secret"))
        for branch_id in (old.id, foreign.id, new_id("wbr"), "main"):
            refusal(acme.key().get(f"/v1/enforcement/branches/{branch_id}"), 404, "branch_not_found")

    def test_get_branch_shows_the_light_of_its_enforcement(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch_enforcement(acme.session, web, "red")
        shown = acme.key().get(f"/v1/enforcement/branches/{web.id}").json()
        branch = acme.key().get(f"/v1/branches/{web.id}").json()
        assert branch["enforcement"] == {"light": "red", "lastVerifiedAt": shown["lastVerifiedAt"]}


class TestGetEnforcementSnippets:
    def test_snippets_cover_every_tool_purpose_and_level(self, acme: Tenant, web: WatchedBranch) -> None:
        shown = acme.key("repo:read").get(f"/v1/enforcement/branches/{web.id}/snippets").json()
        assert (shown["branchId"], shown["checkName"]) == (web.id, "change-freeze/main")
        found = {(each["tool"], each["level"], each["purpose"]) for each in shown["snippets"]}
        assert found == {
            (tool, level, purpose)
            for tool in ("gh", "curl", "terraform", "ruleset_json")
            for level in ("repository", "organization")
            for purpose in ("enable", "disable", "restore")
        }
        assert all("change-freeze/main" in each["content"] for each in shown["snippets"] if each["purpose"] == "enable")
