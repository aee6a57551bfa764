"""What a scope reaches, and what is wrong with one, wherever a body has one; and what its preview counts."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from models.freezes import Freeze
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.freezes.requests import EVERYTHING, FIRST, paths

SCOPE_FAULTS: list[tuple[Any, int, str, list[str]]] = [
    (None, 422, "validation_failed", ["/scope"]),
    ({}, 400, "missing_parameter", ["/scope/type"]),
    ({"type": "galaxy"}, 422, "validation_failed", ["/scope/type"]),
    ({"type": "organization", "patterns": ["*/*"]}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob"}, 400, "missing_parameter", ["/scope/patterns"]),
    ({"type": "glob", "patterns": []}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["acme/*", "acme/[a-z]"]}, 422, "invalid_glob", ["/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["", "a/b/c"]}, 422, "invalid_glob", ["/scope/patterns/0", "/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["a b/*", "a/b/c"]}, 422, "invalid_glob", ["/scope/patterns/0", "/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["!acme/docs"]}, 422, "invalid_glob", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["*/*"] * 101}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["a" * 257]}, 422, "invalid_glob", ["/scope/patterns/0"]),
    ({"type": "organization", "branches": ["release/?"]}, 422, "invalid_glob", ["/scope/branches/0"]),
    ({"type": "organization", "branches": ["main"] * 51}, 422, "validation_failed", ["/scope/branches"]),
    ({"type": "repositories"}, 400, "missing_parameter", ["/scope/repositories"]),
    ({"type": "repositories", "repositories": ["acme/web"] * 1001}, 422, "validation_failed", ["/scope/repositories"]),
    ({"type": "repositories", "repositories": [7]}, 422, "validation_failed", ["/scope/repositories/0"]),
    (
        {"type": "repositories", "repositories": ["acme/web", "acme/nothing", "rep_00000000000000000000000000"]},
        422,
        "invalid_parameter",
        ["/scope/repositories/1", "/scope/repositories/2"],
    ),
    ({"type": "branch", "branchId": "wbr_00000000000000000000000000"}, 422, "invalid_parameter", ["/scope/branchId"]),
    ({"type": "branch", "branchId": "rep_1"}, 422, "invalid_parameter", ["/scope/branchId"]),
    ({"type": "branch", "repository": "acme/web"}, 400, "missing_parameter", ["/scope/branch"]),
    (
        {"type": "branch", "repository": "acme/nothing", "branch": "main"},
        422,
        "invalid_parameter",
        ["/scope/repository"],
    ),
]
SCOPED: dict[str, Callable[[Caller, Any], httpx.Response]] = {
    "preview_scope": lambda caller, scope: caller.post("/v1/scope/preview", {"scope": scope}),
    "create_freeze": lambda caller, scope: caller.post("/v1/freezes", {**FIRST, "scope": scope}),
    "lift_freezes": lambda caller, scope: caller.post("/v1/freezes/lift", {"scope": scope}),
}


class TestScopes:
    def test_invalid_scope_is_reported_by_code_and_pointer(self, acme: Tenant, freeze: Freeze) -> None:
        for scope, status, code, where in SCOPE_FAULTS:
            for send in SCOPED.values():
                assert paths(refusal(send(acme.key(), scope), status, code)) == where, scope

    def test_scope_reaches_watched_branches_of_enabled_repositories(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.branch(acme.session, repository, "release/1")
        factories.branch(acme.session, repository, "old", unwatched_at=factories.now())
        factories.branch(acme.session, acme.repository("off", enabled=False))
        factories.branch(acme.session, acme.repository("gone", removed_at=factories.now()))
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({"type": "organization"}, {"api:main", "web:main", "web:release/1"}),
            ({"type": "organization", "branches": ["release/*"]}, {"web:release/1"}),
            ({"type": "organization", "branches": ["**", "!main"]}, {"web:release/1"}),
            ({"type": "organization", "branches": ["MAIN"]}, set()),
            ({"type": "glob", "patterns": ["ACME/W*"]}, {"web:main", "web:release/1"}),
            ({"type": "glob", "patterns": ["**", "!acme/web"]}, {"api:main"}),
            ({"type": "glob", "patterns": ["acme/*"], "branches": ["main"]}, {"api:main", "web:main"}),
            ({"type": "repositories", "repositories": ["Acme/API"]}, {"api:main"}),
            ({"type": "repositories", "repositories": ["acme/web"], "branches": ["main"]}, {"web:main"}),
            ({"type": "branch", "repository": "acme/web", "branch": "release/1"}, {"web:release/1"}),
            ({"type": "branch", "repository": "acme/web", "branch": "nowhere"}, set()),
            ({"type": "repositories", "repositories": ["acme/off"]}, set()),
        ]
        for scope, reached in cases:
            preview = SCOPED["preview_scope"](acme.key(), scope).json()
            shown = {
                f"{repository['fullName'].removeprefix('acme/')}:{branch['name']}"
                for repository in preview["repositories"]
                for branch in repository["branches"]
            }
            assert shown == reached, scope
            created = SCOPED["create_freeze"](acme.key(), scope)
            if reached:
                assert created.json()["targets"]["total"] == preview["branchCount"] == len(reached)
            else:
                assert paths(refusal(created, 422, "no_targets_in_scope")) == ["/scope"]

    @pytest.mark.parametrize(
        ("scope", "named"),
        [
            ({"type": "branch", "repository": "acme/web", "branch": "mian"}, ": none is 'mian'."),
            ({"type": "repositories", "repositories": ["acme/web"], "branches": list("abcd")}, "'a', 'b', 'c', …."),
            ({"type": "glob", "patterns": ["acme/x*"]}, "an enabled repository."),
        ],
        ids=["branch", "branches", "all branches"],
    )
    def test_scope_that_reaches_nothing_is_refused_with_the_branches_it_names(
        self, acme: Tenant, web: WatchedBranch, scope: dict[str, Any], named: str
    ) -> None:
        error = refusal(SCOPED["create_freeze"](acme.key(), scope), 422, "no_targets_in_scope")
        assert error["message"].endswith(named)


class TestPreviewScope:
    def test_preview_counts_what_a_freeze_would_reach(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web])
        for number in (1, 2):
            factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), number)
        preview = acme.key("freeze:read").post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert preview == {
            "repositoryCount": 2,
            "branchCount": 2,
            "openPullRequestCount": 2,
            "stoppedPullRequestCount": 0,
            "frozenBranchCount": 1,
            "unenforcedBranchCount": 2,
            "unenforcedBranches": [
                {"branchId": api.id, "repository": "acme/api", "branch": "main"},
                {"branchId": web.id, "repository": "acme/web", "branch": "main"},
            ],
            "blocking": {
                "blocked": 0,
                "partly": 0,
                "unprotected": 0,
                "unknown": 2,
                "gaps": [
                    {
                        "code": "not_read",
                        "state": "unknown",
                        "branchCount": 2,
                        "openPullRequestCount": 2,
                        "message": "GitHub's rules were not read yet.",
                    }
                ],
            },
            "repositories": [
                {
                    "id": api.repository_id,
                    "fullName": "acme/api",
                    "branches": [{"id": api.id, "name": "main", "frozen": False}],
                },
                {
                    "id": web.repository_id,
                    "fullName": "acme/web",
                    "branches": [{"id": web.id, "name": "main", "frozen": True}],
                },
            ],
            "truncated": False,
        }
        assert acme.audit() == []

    def test_preview_counts_unenforced_branches(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        lights = {web: "green", api: "red", factories.watched(acme.session, acme.organization, "acme/docs"): "amber"}
        for branch, light in lights.items():
            factories.branch_enforcement(acme.session, branch, light)
        never = factories.watched(acme.session, acme.organization, "acme/new")
        asked = factories.watched(acme.session, acme.organization, "acme/newer")
        factories.branch_enforcement(acme.session, asked, "amber", verified_at=None)
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert preview["branchCount"] == len([*lights, never, asked])
        assert preview["unenforcedBranchCount"] == len([api, never, asked])
        assert [row["branchId"] for row in preview["unenforcedBranches"]] == [api.id, never.id, asked.id]

    def test_preview_counts_the_pull_requests_that_would_really_stop(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        new = factories.watched(acme.session, acme.organization, "acme/new")
        for branch, light in ((web, "green"), (api, "red")):
            factories.branch_enforcement(acme.session, branch, light)
        for branch, pulls in ((web, 3), (api, 2), (new, 1)):
            for number in range(pulls):
                factories.pull_request(acme.session, acme.session.get_one(Repository, branch.repository_id), number)
        reader = acme.key()
        for scope in (EVERYTHING, {"type": "repositories", "repositories": ["acme/web", "acme/api", "acme/new"]}):
            preview = reader.post("/v1/scope/preview", {"scope": scope}).json()
            assert (preview["openPullRequestCount"], preview["stoppedPullRequestCount"]) == (6, 3)
            gaps = [(each["code"], each["openPullRequestCount"]) for each in preview["blocking"]["gaps"]]
            assert gaps == [("no_rule", 2), ("not_read", 1)]

    def test_preview_stops_nothing_while_the_app_is_suspended(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch_enforcement(acme.session, web)
        factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id))
        acme.installation.state = "suspended"
        acme.session.flush()
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["stoppedPullRequestCount"], preview["blocking"]["unprotected"]) == (0, 1)
        assert preview["blocking"]["gaps"][0]["code"] == "suspended"

    @pytest.mark.parametrize(("scope", "count"), [(EVERYTHING, 2), ({"type": "organization", "branches": ["main"]}, 1)])
    def test_preview_counts_only_what_its_scope_reaches(
        self, acme: Tenant, globex: Tenant, web: WatchedBranch, scope: dict[str, Any], count: int
    ) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.branch(acme.session, repository, "release/1")
        others = [acme.repository("off", enabled=False), globex.repository("secret")]
        for each in (repository, *others):
            for number, base in enumerate(("main", "release/1", "unwatched"), 1):
                factories.pull_request(acme.session, each, number, base_branch=base)
        for each in others:
            factories.branch(acme.session, each)
        preview = acme.key().post("/v1/scope/preview", {"scope": scope}).json()
        names = ("branchCount", "openPullRequestCount", "unenforcedBranchCount")
        assert [preview[name] for name in names] == [count] * 3

    def test_preview_of_a_scope_that_reaches_nothing_is_empty(self, acme: Tenant) -> None:
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["repositoryCount"], preview["branchCount"], preview["repositories"]) == (0, 0, [])

    def test_preview_lists_a_hundred_repositories_and_counts_all(self, acme: Tenant) -> None:
        for number in range(101):
            factories.watched(acme.session, acme.organization, f"acme/r{number}")
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["repositoryCount"], len(preview["repositories"]), preview["truncated"]) == (101, 100, True)
        assert (preview["unenforcedBranchCount"], len(preview["unenforcedBranches"])) == (101, 10)
