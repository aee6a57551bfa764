"""Operations of the tag Enforcement."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.enforcement import EnforcementSetup
from models.pull_requests import HeadCheck
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials, what_the_code_host_refuses
from tools.codehost import CodeHost

EVERYWHERE: dict[str, Any] = {"scope": {"type": "organization"}}
PLAN, APPLY = {**EVERYWHERE, "mode": "plan"}, {**EVERYWHERE, "mode": "apply"}


@pytest.fixture
def web(acme: Tenant) -> Repository:
    """Return an enabled repository."""
    return acme.repository("web", "release/1", "release/2", auto_watch=["release/*"])


@pytest.fixture
def main(session: Session, web: Repository) -> WatchedBranch:
    """Return its watched branch."""
    return factories.branch(session, web)


def names(page: dict[str, Any]) -> list[str]:
    return [row["branch"] for row in page["data"]]


def details_of(session: Session, action: str) -> dict[str, Any]:
    """Return the details of the only audit entry of this action."""
    return session.query(AuditEntry).where(AuditEntry.action == action).one().details


class TestGetEnforcement:
    path = "/v1/enforcement"

    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get(self.path), scope="repo:read", least_role="viewer")

    def test_an_organisation_without_branches_is_amber_for_nothing_is_proved(self, acme: Tenant) -> None:
        assert acme.key().get(self.path).json() == {
            "light": "amber",
            "counts": {"green": 0, "amber": 0, "red": 0},
            "pending": {"verify": 0, "seed": 0, "setup": 0},
            "lastSetup": None,
            "data": [],
            "nextCursor": None,
        }

    def test_a_branch_that_nobody_has_looked_at_is_amber_and_says_so(self, acme: Tenant, main: WatchedBranch) -> None:
        shown = acme.key("repo:read").get(self.path).json()
        assert (shown["light"], shown["counts"]) == ("amber", {"green": 0, "amber": 1, "red": 0})
        [row] = shown["data"]
        [finding] = row.pop("findings")
        assert finding["code"] == "not_verified"
        assert row == {
            "branchId": main.id,
            "repository": "acme/web",
            "branch": "main",
            "light": "amber",
            "checkName": "change-freeze/main",
            "ruleset": None,
            "integrationPinned": None,
            "bypassActors": None,
            "mergeQueue": None,
            "lastVerifiedAt": None,
        }

    def test_a_probe_that_was_asked_for_and_has_not_looked_yet_proves_nothing(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        factories.branch_enforcement(session, main, verified_at=None, probe_due_at=factories.now())
        shown = acme.key().get(self.path).json()
        assert (shown["light"], shown["pending"]["verify"]) == ("amber", 1)
        assert shown["data"][0]["findings"][0]["code"] == "not_verified"

    def test_what_a_probe_found_out_is_shown_as_it_is_stored(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        ruleset = {"id": 7, "name": "Change freeze: main", "enforcement": "active"}
        actors = [{"type": "Team", "id": 3, "name": None, "mode": "exempt"}]
        queue = {"groupingStrategy": "HEADGREEN", "reported": True}
        row = factories.branch_enforcement(
            session, main, "amber", ruleset=ruleset, bypass_actors=actors, merge_queue=queue
        )
        [shown] = acme.key().get(self.path).json()["data"]
        assert (shown["ruleset"], shown["bypassActors"], shown["mergeQueue"]) == (ruleset, actors, queue)
        assert (shown["integrationPinned"], shown["findings"]) == (True, row.findings)
        assert shown["lastVerifiedAt"].endswith("Z")

    @pytest.mark.parametrize(
        ("branches", "light"),
        [
            (["green", "green"], "green"),
            (["green", "amber"], "amber"),
            (["green", "amber", "red"], "red"),
            (["green", "red"], "red"),
        ],
    )
    def test_the_organisation_has_the_worst_light_of_its_branches(
        self, acme: Tenant, session: Session, web: Repository, branches: list[str], light: str
    ) -> None:
        for number, each in enumerate(branches):
            factories.branch_enforcement(session, factories.branch(session, web, f"release/{number}"), each)
        shown = acme.key().get(self.path).json()
        assert shown["light"] == light
        assert shown["counts"] == {each: branches.count(each) for each in ("green", "amber", "red")}

    def test_only_what_a_freeze_can_reach_counts(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        factories.branch_enforcement(session, main)
        now = factories.now()
        for branch in (
            factories.branch(session, acme.repository("off", enabled=False)),
            factories.branch(session, acme.repository("gone", removed_at=now)),
            factories.branch(session, acme.repository("old"), unwatched_at=now),
        ):
            factories.branch_enforcement(session, branch, "red")
        shown = acme.key().get(self.path).json()
        assert (shown["light"], names(shown), shown["counts"]["red"]) == ("green", ["main"], 0)

    def test_the_one_watched_last_comes_first_page_by_page(
        self, acme: Tenant, session: Session, web: Repository
    ) -> None:
        for age, name in enumerate(["c", "b", "a"]):
            factories.branch(session, web, name, created_at=factories.now() - timedelta(minutes=age))
        first = acme.key().get(self.path, limit=2).json()
        second = acme.key().get(self.path, limit=2, cursor=first["nextCursor"]).json()
        assert [*names(first), *names(second)] == ["c", "b", "a"]
        assert second["nextCursor"] is None
        refusal(acme.key().get(self.path, light="red", cursor=first["nextCursor"]), 400, "invalid_cursor")

    def test_filters_narrow_the_list_and_leave_the_light_alone(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        factories.branch_enforcement(session, main)
        api = acme.repository("api")
        factories.branch_enforcement(session, factories.branch(session, api, "trunk"), "red")
        factories.branch(session, api, "next")
        reader = acme.key("repo:read")
        assert names(reader.get(self.path, light="green").json()) == ["main"]
        assert names(reader.get(self.path, light="red").json()) == ["trunk"]
        assert names(reader.get(self.path, light="amber").json()) == ["next"]
        assert names(reader.get(self.path, repo="ACME/web").json()) == ["main"]
        narrowed = reader.get(self.path, repo=api.id, light="green").json()
        assert (narrowed["data"], narrowed["light"]) == ([], "red")
        assert narrowed["counts"] == {"green": 1, "amber": 1, "red": 1}

    def test_a_light_that_there_is_not_is_refused(self, acme: Tenant) -> None:
        refusal(acme.key().get(self.path, light="blue"), 400, "invalid_parameter")

    def test_an_unknown_repository_is_not_found(self, acme: Tenant, globex: Tenant) -> None:
        for reference in ("acme/nothing", globex.repository("secret").id):
            refusal(acme.key().get(self.path, repo=reference), 404, "repository_not_found")

    def test_a_repository_without_its_owner_is_told_how_it_is_named(self, acme: Tenant, web: Repository) -> None:
        told = refusal(acme.key().get(self.path, repo="web"), 404, "repository_not_found")
        assert told["message"] == "There is no repository 'web' in this organisation. Name it as owner/name."

    def test_what_is_not_done_yet_is_counted(self, acme: Tenant, session: Session, web: Repository) -> None:
        due, tried_again = factories.now(), factories.now() + timedelta(minutes=5)
        for name, probe in (("a", due), ("b", tried_again), ("c", None)):
            branch = factories.branch(session, web, name, wanted_generation=2, written_generation=2)
            factories.branch_enforcement(session, branch, probe_due_at=probe)
        factories.branch(session, web, "d", wanted_generation=2, written_generation=1)
        for state in ("queued", "done", "awaiting_authorization", "failed"):
            session.add(setup_of(acme, state))
        session.flush()
        assert acme.key().get(self.path).json()["pending"] == {"verify": 2, "seed": 1, "setup": 1}

    @pytest.mark.parametrize(
        ("columns", "state", "error"),
        [
            ({"state": "queued", "total": 3, "written": 1}, "applying", None),
            ({"state": "awaiting_authorization", "expires_at": timedelta(minutes=1)}, "awaiting_authorization", None),
            ({"state": "awaiting_authorization", "expires_at": timedelta(0)}, "expired", None),
            ({"state": "done", "finished_at": timedelta(0)}, "applied", None),
            ({"state": "failed", "last_error_code": "github_unavailable"}, "failed", "github_unavailable"),
        ],
    )
    def test_the_setup_that_was_asked_for_last_tells_how_far_it_is(
        self, acme: Tenant, session: Session, columns: dict[str, Any], state: str, error: str | None
    ) -> None:
        now = factories.now()
        values: dict[str, Any] = {
            name: now + value if isinstance(value, timedelta) else value for name, value in columns.items()
        }
        session.add(setup_of(acme, "failed", created_at=now - timedelta(minutes=9)))
        session.add(setup_of(acme, **values))
        session.flush()
        shown = acme.key().get(self.path).json()["lastSetup"]
        assert (shown["state"], shown["lastError"] and shown["lastError"]["code"]) == (state, error)
        assert (shown["total"], shown["written"]) == (columns.get("total", 0), columns.get("written", 0))
        assert (shown["finishedAt"] is not None) == (state == "applied")

    def test_nothing_of_another_organisation_shows(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        branch = factories.branch(session, globex.repository("secret"), wanted_generation=1)
        factories.branch_enforcement(session, branch, "red", probe_due_at=factories.now())
        session.add(setup_of(globex, "queued"))
        session.flush()
        shown = acme.key().get(self.path).json()
        assert (shown["data"], shown["light"], shown["lastSetup"]) == ([], "amber", None)
        assert not any([*shown["counts"].values(), *shown["pending"].values()])


def setup_of(tenant: Tenant, state: str, **columns: Any) -> EnforcementSetup:
    return EnforcementSetup(
        id=new_id("set"),
        organization_id=tenant.id,
        scope={"type": "organization"},
        state=state,
        requested_by=factories.SYSTEM,
        created_at=columns.pop("created_at", factories.now()),
        **columns,
    )


class TestGetBranchEnforcement:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant, main: WatchedBranch) -> None:
        path = f"/v1/enforcement/branches/{main.id}"
        takes_credentials(acme, lambda caller: caller.get(path), scope="repo:read", least_role="viewer")

    def test_it_tells_what_the_list_tells_and_how_far_the_checks_are(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        factories.branch_enforcement(session, main)
        shown = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()
        checks = shown.pop("checks")
        assert [shown] == acme.key().get("/v1/enforcement").json()["data"]
        assert checks == {"state": "written", "total": 0, "written": 0, "lastError": None}

    def test_heads_count_once_their_check_is_known_to_be_written(
        self, acme: Tenant, session: Session, web: Repository, main: WatchedBranch
    ) -> None:
        pulls = [factories.pull_request(session, web, number) for number in range(4)]
        factories.pull_request(session, web, 9, state="closed")
        factories.pull_request(session, web, 10, base_branch="release/1")
        factories.head_check(session, main, pulls[0].head_sha, "failure", summary_hash="x")
        factories.head_check(session, main, pulls[1].head_sha, "failure", summary_hash="")
        factories.head_check(session, main, pulls[2].head_sha, "success", summary_hash="x", doubtful=True)
        factories.head_check(session, main, factories.sha("queue entry"), "success", summary_hash="x")
        factories.head_check(session, main, factories.sha("gone"), "failure", summary_hash="x", followed=False)
        main.wanted_generation = 3
        session.flush()
        checks = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()["checks"]
        assert checks == {"state": "pending", "total": 5, "written": 2, "lastError": None}

    def test_the_code_hosts_refusal_is_told_and_waiting_for_its_limits_is_no_failure(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        main.wanted_generation = 1
        for code, state in (("github_unavailable", "failed"), ("github_rate_limited", "pending")):
            main.last_error_code, main.last_error_message = code, "GitHub did not answer."
            session.flush()
            checks = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()["checks"]
            assert checks["state"] == state
            assert checks["lastError"] == {"code": code, "message": "GitHub did not answer."}

    def test_a_branch_of_a_disabled_repository_is_told_too(self, acme: Tenant, session: Session) -> None:
        branch = factories.branch(session, acme.repository("off", enabled=False))
        assert acme.key().get(f"/v1/enforcement/branches/{branch.id}").status_code == 200

    def test_one_that_is_not_watched_here_is_not_found(
        self, acme: Tenant, globex: Tenant, session: Session, web: Repository
    ) -> None:
        old = factories.branch(session, web, "old", unwatched_at=factories.now())
        foreign = factories.branch(session, globex.repository("secret"))
        for branch_id in (old.id, foreign.id, new_id("wbr"), "main"):
            refusal(acme.key().get(f"/v1/enforcement/branches/{branch_id}"), 404, "branch_not_found")

    def test_the_watched_branch_has_the_same_light(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        factories.branch_enforcement(session, main, "red")
        shown = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()
        branch = acme.key().get(f"/v1/branches/{main.id}").json()
        assert branch["enforcement"] == {"light": "red", "lastVerifiedAt": shown["lastVerifiedAt"]}


class TestGetEnforcementSnippets:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant, main: WatchedBranch) -> None:
        path = f"/v1/enforcement/branches/{main.id}/snippets"
        takes_credentials(acme, lambda caller: caller.get(path), scope="repo:read", least_role="viewer")

    def test_every_tool_has_one_to_enable_to_disable_and_to_restore_at_both_levels(
        self, acme: Tenant, main: WatchedBranch
    ) -> None:
        shown = acme.key("repo:read").get(f"/v1/enforcement/branches/{main.id}/snippets").json()
        assert (shown["branchId"], shown["checkName"]) == (main.id, "change-freeze/main")
        found = {(each["tool"], each["level"], each["purpose"]) for each in shown["snippets"]}
        assert found == {
            (tool, level, purpose)
            for tool in ("gh", "curl", "terraform", "ruleset_json")
            for level in ("repository", "organization")
            for purpose in ("enable", "disable", "restore")
        }
        assert all("change-freeze/main" in each["content"] for each in shown["snippets"] if each["purpose"] == "enable")

    def test_one_that_is_not_watched_here_is_not_found(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        foreign = factories.branch(session, globex.repository("secret"))
        for branch_id in (foreign.id, new_id("wbr")):
            answer = acme.key().get(f"/v1/enforcement/branches/{branch_id}/snippets")
            refusal(answer, 404, "branch_not_found")


class TestVerifyEnforcement:
    path = "/v1/enforcement/verify"

    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant, main: WatchedBranch) -> None:
        takes_credentials(
            acme,
            lambda caller: caller.post(self.path, EVERYWHERE),
            scope="repo:write",
            least_role="member",
            writes=True,
        )

    def test_the_branches_of_the_scope_wait_for_a_probe(
        self, acme: Tenant, session: Session, main: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        factories.branch_enforcement(session, main)
        factories.branch_enforcement(session, factories.branch(session, acme.repository("api")))
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        answer = acme.key("repo:write").post(self.path, {"scope": scope})
        assert answer.status_code == 202
        assert answer.json()["branchCount"] == 1
        assert answer.json()["requestedAt"].endswith("Z")
        assert "verify" in wakeups.sent
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_one_that_nobody_has_looked_at_waits_too(self, acme: Tenant, main: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_it_is_audited_once_with_its_scope(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.verify_requested"]
        details = details_of(session, "enforcement.verify_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [main.id]}
        [entry] = session.query(AuditEntry)
        assert (entry.target["type"], entry.target["name"]) == ("organization", "Acme")

    def test_a_scope_that_reaches_nothing_is_refused(self, acme: Tenant, web: Repository) -> None:
        refusal(acme.key().post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        assert acme.audit() == []

    def test_a_scope_that_names_what_is_not_there_is_refused(self, acme: Tenant, main: WatchedBranch) -> None:
        for scope, code in (
            ({"type": "branch", "branchId": new_id("wbr")}, "invalid_parameter"),
            ({"type": "repositories", "repositories": ["acme/nothing"]}, "invalid_parameter"),
            ({"type": "glob", "patterns": ["acme/[web]"]}, "invalid_glob"),
        ):
            refusal(acme.key().post(self.path, {"scope": scope}), 422, code)

    def test_without_an_installation_there_is_nobody_to_ask(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.key().post(self.path, EVERYWHERE), 410, "installation_removed")

    def test_a_repeat_under_the_same_key_is_one_request(self, acme: Tenant, main: WatchedBranch) -> None:
        key, headers = acme.key(), {"Idempotency-Key": "look-once"}
        first = key.post(self.path, EVERYWHERE, headers=headers)
        second = key.post(self.path, EVERYWHERE, headers=headers)
        assert (second.json(), second.headers["idempotency-replayed"]) == (first.json(), "true")
        assert acme.audit() == ["enforcement.verify_requested"]


class TestSeedCheck:
    path = "/v1/enforcement/seed-check"

    def test_it_is_for_administrators(self, acme: Tenant, main: WatchedBranch) -> None:
        takes_credentials(
            acme, lambda caller: caller.post(self.path, EVERYWHERE), scope=None, least_role="admin", writes=True
        )

    def test_every_head_of_the_scope_will_be_written_anew(
        self, acme: Tenant, session: Session, web: Repository, main: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        pull, new = factories.pull_request(session, web, 7), factories.pull_request(session, web, 8)
        judged = factories.head_check(session, main, pull.head_sha, "success", summary_hash="x")
        entry = factories.head_check(session, main, factories.sha("queue entry"), "success", summary_hash="x")
        gone = factories.head_check(session, main, factories.sha("gone"), "failure", summary_hash="x", followed=False)
        answer = acme.person("admin").post(self.path, EVERYWHERE)
        assert answer.status_code == 202
        assert (answer.json()["branchCount"], answer.json()["headCount"]) == (1, 3)
        session.expire_all()
        assert [row.summary_hash for row in (judged, entry, gone)] == ["", "", "x"]
        assert main.wanted_generation > main.written_generation
        assert main.due_at is not None
        assert "reconcile" in wakeups.sent
        shown = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()["checks"]
        assert (shown["state"], shown["total"], shown["written"]) == ("pending", 3, 0)
        assert new.head_sha not in {row.head_sha for row in session.query(HeadCheck)}

    def test_other_branches_are_left_alone(self, acme: Tenant, session: Session, web: Repository) -> None:
        one, two = (factories.branch(session, web, name) for name in ("release/1", "release/2"))
        checks = [
            factories.head_check(session, each, factories.sha(each.name), "success", summary_hash="x")
            for each in (one, two)
        ]
        scope = {"type": "branch", "repository": "acme/web", "branch": "release/1"}
        assert acme.person("admin").post(self.path, {"scope": scope}).json()["headCount"] == 1
        session.expire_all()
        assert [check.summary_hash for check in checks] == ["", "x"]
        assert (two.wanted_generation, two.due_at) == (0, None)

    def test_it_is_audited_once_with_its_scope(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        acme.person("admin").post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.seed_requested"]
        details = details_of(session, "enforcement.seed_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [main.id], "heads": 0}

    def test_a_scope_that_reaches_nothing_is_refused(self, acme: Tenant, web: Repository) -> None:
        refusal(acme.person("admin").post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        glob = {"scope": {"type": "glob", "patterns": ["acme/[web]"]}}
        refusal(acme.person("admin").post(self.path, glob), 422, "invalid_glob")

    def test_another_organisations_branch_is_nobodys(
        self, acme: Tenant, globex: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        foreign = factories.branch(session, globex.repository("secret"))
        body = {"scope": {"type": "branch", "branchId": foreign.id}}
        refusal(acme.person("admin").post(self.path, body), 422, "invalid_parameter")

    def test_without_an_installation_nothing_can_be_written(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.person("admin").post(self.path, EVERYWHERE), 410, "installation_removed")


class TestSetupEnforcement:
    path = "/v1/enforcement/setup"

    def test_it_is_for_administrators(self, acme: Tenant, main: WatchedBranch) -> None:
        takes_credentials(
            acme, lambda caller: caller.post(self.path, PLAN), scope=None, least_role="admin", writes=True
        )

    def test_a_plan_shows_the_ruleset_that_is_missing_and_changes_nothing(
        self, acme: Tenant, main: WatchedBranch, code_host: CodeHost, wakeups: RecordedWakeups
    ) -> None:
        body = {"scope": {"type": "branch", "branchId": main.id}, "mode": "plan"}
        shown = acme.person("admin").post(self.path, body).json()
        assert (shown["mode"], shown["state"], shown["level"]) == ("plan", "planned", "repository")
        [change] = shown["changes"]
        after, diff = change.pop("after"), change.pop("diff")
        assert change == {
            "action": "create",
            "level": "repository",
            "account": "acme",
            "repository": "acme/web",
            "checkName": "change-freeze/main",
            "branches": [{"branchId": main.id, "repository": "acme/web", "branch": "main"}],
            "rulesetId": None,
            "before": None,
        }
        [rule] = after["rules"]
        assert rule["parameters"]["required_status_checks"] == [{"context": "change-freeze/main", "integration_id": 1}]
        assert after["conditions"]["ref_name"]["include"] == ["refs/heads/main"]
        assert '+  "enforcement": "active"' in diff
        assert code_host.world.rulesets == {}
        assert "setup" not in wakeups.sent

    def test_several_repositories_share_one_ruleset_of_the_organisation(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        api = factories.branch(session, acme.repository("api"))
        shown = acme.person("owner").post(self.path, PLAN).json()
        assert shown["level"] == "organization"
        [change] = [each for each in shown["changes"] if each["checkName"] == "change-freeze/main"]
        assert (change["level"], change["repository"]) == ("organization", None)
        assert {row["branchId"] for row in change["branches"]} == {main.id, api.id}
        assert len(change["after"]["conditions"]["repository_id"]["repository_ids"]) == 2

    def test_applying_is_left_to_a_job_and_audited_once(
        self, acme: Tenant, session: Session, main: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        shown = acme.person("admin").post(self.path, APPLY).json()
        assert (shown["mode"], shown["state"]) == ("apply", "applying")
        assert "setup" in wakeups.sent
        assert acme.key().get("/v1/enforcement").json()["pending"]["setup"] == 1
        assert acme.audit() == ["enforcement.setup_requested"]

    def test_without_the_apps_permission_an_administrator_has_to_authorise(
        self, acme: Tenant, main: WatchedBranch, code_host: CodeHost
    ) -> None:
        installation = code_host.world.installations[acme.installation.id]
        installation.permissions = {**installation.permissions, "administration": "read"}
        del installation.permissions["organization_administration"]
        person = acme.person("admin")
        assert person.post(self.path, PLAN).json()["state"] == "planned"
        error = refusal(person.post(self.path, APPLY), 409, "admin_authorization_required")
        [row] = error["details"]
        assert (row["path"], row["code"]) == ("/scope", "admin_authorization_required")
        assert row["authorizationUrl"].startswith("http")
        assert row["expiresAt"].endswith("Z")

    def test_a_scope_that_reaches_nothing_is_refused(self, acme: Tenant, web: Repository) -> None:
        person = acme.person("admin")
        refusal(person.post(self.path, PLAN), 422, "no_targets_in_scope")
        glob = {"scope": {"type": "glob", "patterns": ["acme/[web]"]}, "mode": "plan"}
        refusal(person.post(self.path, glob), 422, "invalid_glob")

    def test_another_organisations_branch_is_nobodys(
        self, acme: Tenant, globex: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        foreign = factories.branch(session, globex.repository("secret"))
        body = {"scope": {"type": "branch", "branchId": foreign.id}, "mode": "plan"}
        refusal(acme.person("admin").post(self.path, body), 422, "invalid_parameter")

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"scope": {"type": "organization"}}, 400, "missing_parameter"),
            ({"scope": {"type": "organization"}, "mode": "now"}, 422, "validation_failed"),
            ({"mode": "plan"}, 400, "missing_parameter"),
        ],
    )
    def test_it_has_to_be_said_where_and_whether(
        self, acme: Tenant, main: WatchedBranch, body: dict[str, Any], status: int, code: str
    ) -> None:
        refusal(acme.person("admin").post(self.path, body), status, code)

    def test_without_an_installation_nothing_can_be_written(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.person("admin").post(self.path, PLAN), 410, "installation_removed")

    @what_the_code_host_refuses
    def test_what_the_code_host_refuses_is_told(
        self, acme: Tenant, main: WatchedBranch, code_host: CodeHost, fault: dict[str, Any], status: int, code: str
    ) -> None:
        code_host.faults.add("error", "GET /repos/acme/web/rulesets", **fault)
        refusal(acme.person("admin").post(self.path, PLAN), status, code)
