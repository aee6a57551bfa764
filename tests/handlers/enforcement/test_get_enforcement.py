"""The lights of all branches, and the setup that was requested last."""

from datetime import timedelta
from typing import Any

import pytest

from models.enforcement import EnforcementSetup
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, refusal


def names(page: dict[str, Any]) -> list[str]:
    return [row["branch"] for row in page["data"]]


class TestGetEnforcement:
    path = "/v1/enforcement"

    def test_enforcement_of_an_organization_without_branches_is_amber(self, acme: Tenant) -> None:
        assert acme.key().get(self.path).json() == {
            "light": "amber",
            "counts": {"green": 0, "amber": 0, "red": 0, "unknown": 0},
            "pending": {"verify": 0, "seed": 0, "setup": 0},
            "lastSetup": None,
            "stops": {"canStop": 0, "cannotStop": 0, "gaps": []},
            "data": [],
            "nextCursor": None,
        }

    def test_enforcement_of_a_never_verified_branch_is_amber_with_a_finding(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        shown = acme.key("repo:read").get(self.path).json()
        assert (shown["light"], shown["counts"]) == ("amber", {"green": 0, "amber": 1, "red": 0, "unknown": 1})
        [row] = shown["data"]
        [finding] = row.pop("findings")
        assert finding["code"] == "not_verified"
        assert {gap["code"] for gap in row.pop("stopGaps")} == {"no_permission", "not_authorized", "not_read"}
        assert row == {
            "branchId": web.id,
            "repository": "acme/web",
            "branch": "main",
            "light": "amber",
            "checkName": "change-freeze/main",
            "ruleset": None,
            "integrationPinned": None,
            "bypassActors": None,
            "mergeQueue": None,
            "lastVerifiedAt": None,
            "canStop": False,
        }

    def test_enforcement_with_a_pending_first_probe_is_amber(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch_enforcement(acme.session, web, verified_at=None, due_at=factories.now())
        shown = acme.key().get(self.path).json()
        assert (shown["light"], shown["pending"]["verify"]) == ("amber", 1)
        assert shown["data"][0]["findings"][0]["code"] == "not_verified"

    def test_enforcement_shows_the_stored_findings_of_a_probe(self, acme: Tenant, web: WatchedBranch) -> None:
        ruleset = {"id": 7, "name": "Change freeze: main", "enforcement": "active"}
        actors = [{"type": "Team", "id": 3, "name": None, "mode": "exempt"}]
        queue = {"groupingStrategy": "HEADGREEN", "reported": True}
        row = factories.branch_enforcement(
            acme.session, web, "amber", ruleset=ruleset, bypass_actors=actors, merge_queue=queue
        )
        [shown] = acme.key().get(self.path).json()["data"]
        assert (shown["ruleset"], shown["bypassActors"], shown["mergeQueue"]) == (ruleset, actors, queue)
        assert (shown["integrationPinned"], shown["findings"]) == (True, row.findings)
        assert shown["lastVerifiedAt"].endswith("Z")

    @pytest.mark.parametrize("state", ["suspended", "removed"])
    def test_enforcement_is_red_and_says_why_while_the_app_is_not_active(
        self, acme: Tenant, web: WatchedBranch, state: str
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        reader = acme.key()
        before = reader.get(self.path).json()
        assert (before["light"], before["data"][0]["findings"]) == ("green", [])
        acme.installation.state = state
        acme.session.flush()
        shown = reader.get(self.path).json()
        assert (shown["light"], shown["counts"]) == ("red", {"green": 0, "amber": 0, "red": 1, "unknown": 0})
        [finding] = shown["data"][0]["findings"]
        assert (finding["code"], finding["severity"]) == (f"installation_{state}", "critical")
        assert names(reader.get(self.path, light="red").json()) == ["main"]
        detail = reader.get(f"{self.path}/branches/{web.id}").json()
        assert (detail["light"], detail["findings"]) == ("red", [finding])

    def test_enforcement_is_amber_once_rules_were_not_read_for_long(
        self, acme: Tenant, web: WatchedBranch, later: Any
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        reader = acme.key()
        later(minutes=31)
        shown = reader.get(self.path).json()
        assert shown["light"] == "amber"
        [finding] = shown["data"][0]["findings"]
        assert finding["code"] == "not_verified"
        assert "not known whether they still block" in finding["message"]

    @pytest.mark.parametrize(
        ("branches", "light"),
        [
            (["green", "green"], "green"),
            (["green", "amber"], "amber"),
            (["green", "amber", "red"], "red"),
            (["green", "red"], "red"),
        ],
    )
    def test_organization_has_the_worst_light_of_its_branches(
        self, acme: Tenant, repository: Repository, branches: list[str], light: str
    ) -> None:
        for number, each in enumerate(branches):
            factories.branch_enforcement(
                acme.session, factories.branch(acme.session, repository, f"release/{number}"), each
            )
        shown = acme.key().get(self.path).json()
        assert shown["light"] == light
        assert shown["counts"] == {each: branches.count(each) for each in ("green", "amber", "red", "unknown")}

    def test_enforcement_counts_only_branches_within_reach_of_a_freeze(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch_enforcement(acme.session, web)
        now = factories.now()
        for branch in (
            factories.branch(acme.session, acme.repository("off", enabled=False)),
            factories.branch(acme.session, acme.repository("gone", removed_at=now)),
            factories.branch(acme.session, acme.repository("old"), unwatched_at=now),
        ):
            factories.branch_enforcement(acme.session, branch, "red")
        shown = acme.key().get(self.path).json()
        assert (shown["light"], names(shown), shown["counts"]["red"]) == ("green", ["main"], 0)

    def test_enforcement_lists_the_last_watched_first(self, acme: Tenant, repository: Repository) -> None:
        for age, name in enumerate(["c", "b", "a"]):
            factories.branch(acme.session, repository, name, created_at=factories.now() - timedelta(minutes=age))
        assert names(acme.key().get(self.path).json()) == ["c", "b", "a"]

    def test_enforcement_filters_narrow_the_list_but_not_the_light(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch_enforcement(acme.session, web)
        api = acme.repository("api")
        factories.branch_enforcement(acme.session, factories.branch(acme.session, api, "trunk"), "red")
        factories.branch(acme.session, api, "next")
        reader = acme.key("repo:read")
        assert names(reader.get(self.path, light="green").json()) == ["main"]
        assert names(reader.get(self.path, light="red").json()) == ["trunk"]
        assert names(reader.get(self.path, light="amber").json()) == ["next"]
        assert names(reader.get(self.path, repo="ACME/web").json()) == ["main"]
        narrowed = reader.get(self.path, repo=api.id, light="green").json()
        assert (narrowed["data"], narrowed["light"]) == ([], "red")
        assert narrowed["counts"] == {"green": 1, "amber": 1, "red": 1, "unknown": 1}

    def test_repository_without_owner_is_not_found_with_a_hint_on_the_form(
        self, acme: Tenant, repository: Repository
    ) -> None:
        returned = refusal(acme.key().get(self.path, repo="web"), 404, "repository_not_found")
        assert returned["message"] == "Repository 'web' not found in this organisation. Use the form owner/name."

    def test_enforcement_counts_pending_work(self, acme: Tenant, repository: Repository) -> None:
        due, tried_again = factories.now(), factories.now() + timedelta(minutes=5)
        for name, probe in (("a", due), ("b", tried_again), ("c", None)):
            branch = factories.branch(acme.session, repository, name, wanted_generation=2, written_generation=2)
            factories.branch_enforcement(acme.session, branch, due_at=probe)
        factories.branch(acme.session, repository, "d", wanted_generation=2, written_generation=1)
        for state in ("queued", "done", "awaiting_authorization", "failed"):
            acme.session.add(setup_of(acme, state))
        acme.session.flush()
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
    def test_enforcement_shows_the_progress_of_the_last_setup(
        self, acme: Tenant, columns: dict[str, Any], state: str, error: str | None
    ) -> None:
        now = factories.now()
        values: dict[str, Any] = {
            name: now + value if isinstance(value, timedelta) else value for name, value in columns.items()
        }
        acme.session.add(setup_of(acme, "failed", created_at=now - timedelta(minutes=9)))
        acme.session.add(setup_of(acme, **values))
        acme.session.flush()
        shown = acme.key().get(self.path).json()["lastSetup"]
        assert (shown["state"], shown["lastError"] and shown["lastError"]["code"]) == (state, error)
        assert (shown["total"], shown["written"]) == (columns.get("total", 0), columns.get("written", 0))
        assert (shown["finishedAt"] is not None) == (state == "applied")


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
