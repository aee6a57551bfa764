"""Reading branches: those that are watched, and those that GitHub has."""

from datetime import datetime, timedelta
from typing import Any

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.access_checks import what_github_refuses
from tests.handlers.callers import Tenant, refusal
from tools.fake_github import FakeGitHub


def names(page: dict[str, Any]) -> list[str]:
    return [row["name"] for row in page["data"]]


class TestListBranches:
    def test_list_branches_shows_the_light_of_the_last_probe(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        found = factories.branch_enforcement(
            acme.session, factories.branch(acme.session, repository, "release/1"), "red"
        )
        shown = {row["name"]: row["enforcement"] for row in acme.key().get("/v1/branches").json()["data"]}
        assert found.verified_at is not None
        assert shown.pop("main") == {"light": "amber", "lastVerifiedAt": None}
        assert shown["release/1"]["light"] == "red"
        assert datetime.fromisoformat(shown["release/1"]["lastVerifiedAt"]) == found.verified_at

    def test_list_branches_returns_the_last_watched_first(self, acme: Tenant, repository: Repository) -> None:
        for age, name in enumerate(["c", "b", "a"]):
            factories.branch(acme.session, repository, name, created_at=factories.now() - timedelta(minutes=age))
        assert names(acme.key().get("/v1/branches").json()) == ["c", "b", "a"]

    def test_list_branches_applies_its_filters(self, acme: Tenant, web: WatchedBranch) -> None:
        other = factories.branch(acme.session, acme.repository("api"), "trunk")
        freeze = factories.freeze(acme.session, acme.organization, [other])
        reader = acme.key("repo:read")
        assert names(reader.get("/v1/branches", repo="ACME/web").json()) == ["main"]
        assert names(reader.get("/v1/branches", repo=other.repository_id).json()) == ["trunk"]
        assert names(reader.get("/v1/branches", frozen="false").json()) == ["main"]
        frozen = reader.get("/v1/branches", frozen="true").json()
        assert [(row["name"], row["frozen"], row["freezeIds"]) for row in frozen["data"]] == [
            ("trunk", True, [freeze.id])
        ]

    def test_list_branches_hides_unwatched_and_removed_branches(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        factories.branch(acme.session, repository, "old", unwatched_at=factories.now())
        factories.branch(acme.session, acme.repository("gone", removed_at=factories.now()), "gone")
        assert names(acme.key().get("/v1/branches").json()) == ["main"]


class TestListRepositoryBranches:
    def test_list_repository_branches_shows_only_its_own(self, acme: Tenant, web: WatchedBranch) -> None:
        factories.branch(acme.session, acme.repository("api"), "trunk")
        assert names(acme.key().get("/v1/repos/acme%2Fweb/branches").json()) == ["main"]

    def test_list_repository_branches_filters_by_frozen(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, repository, "release/1")])
        path = f"/v1/repos/{repository.id}/branches"
        assert names(acme.key().get(path, frozen="true").json()) == ["release/1"]
        assert names(acme.key().get(path, frozen="false").json()) == ["main"]


class TestListRemoteBranches:
    path = "/v1/repos/acme%2Fweb/remote-branches"

    def test_list_remote_branches_sorts_by_name_and_marks_watched_branches(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        shown = acme.key("repo:read").get(self.path).json()
        assert [(row["name"], row["watched"], row["branchId"]) for row in shown["data"]] == [
            ("main", True, web.id),
            ("release/1", False, None),
            ("release/2", False, None),
        ]
        assert all(len(row["sha"]) == 40 and row["protected"] is False for row in shown["data"])
        assert shown["nextCursor"] is None

    def test_remote_branches_are_cached_for_a_minute_but_show_watching_at_once(
        self, acme: Tenant, repository: Repository, fake_github: FakeGitHub, later: Any
    ) -> None:
        first = acme.key().get(self.path).json()
        fake_github.organization("acme").repository("web").branch("new")
        watched = acme.key().post(f"/v1/repos/{repository.id}/branches", {"name": "release/1"}).json()
        later(seconds=45)
        kept = acme.key().get(self.path).json()
        assert kept["fetchedAt"] == first["fetchedAt"]
        assert [row["name"] for row in kept["data"] if row["watched"]] == ["release/1"]
        assert [row["branchId"] for row in kept["data"] if row["watched"]] == [watched["id"]]
        later(seconds=16)
        fresh = acme.key().get(self.path).json()
        assert fresh["fetchedAt"] > first["fetchedAt"]
        assert "new" in names(fresh)

    def test_support_session_reads_remote_branches_without_caching(self, acme: Tenant, repository: Repository) -> None:
        assert acme.support.get(self.path).status_code == 200

    def test_list_remote_branches_is_not_found_when_missing_on_github(
        self, acme: Tenant, repository: Repository
    ) -> None:
        repository.name = "elsewhere"
        acme.session.flush()
        refusal(acme.key().get(f"/v1/repos/{repository.id}/remote-branches"), 404, "repository_not_found")

    def test_list_remote_branches_is_gone_when_github_removed_the_installation(
        self, acme: Tenant, repository: Repository, fake_github: FakeGitHub
    ) -> None:
        fake_github.world.installations.pop(acme.installation.id)
        refusal(acme.key().get(self.path), 410, "installation_removed")

    def test_list_remote_branches_says_that_github_suspended_the_app(
        self, acme: Tenant, repository: Repository, fake_github: FakeGitHub
    ) -> None:
        fake_github.world.installations[acme.installation.id].suspended_at = fake_github.world.now()
        error = refusal(acme.key().get(self.path), 409, "installation_suspended")
        assert "suspended" in error["message"]

    @what_github_refuses
    def test_list_remote_branches_reports_the_error_of_github(
        self,
        acme: Tenant,
        repository: Repository,
        fake_github: FakeGitHub,
        fault: dict[str, Any],
        status: int,
        code: str,
    ) -> None:
        fake_github.faults.add("error", "GET /repos/acme/web/branches", **fault)
        answer = acme.key().get(self.path)
        refusal(answer, status, code)
        if status == 429:
            assert int(answer.headers["retry-after"]) >= 1

    def test_list_remote_branches_leaves_the_remaining_quota_to_verdicts(
        self, acme: Tenant, repository: Repository, fake_github: FakeGitHub, later: Any
    ) -> None:
        fake_github.settings.primary_limits, fake_github.settings.rest_points_per_hour = True, 20
        reader, answers = acme.key(), []
        try:
            for _ in range(21):
                answers.append(reader.get(self.path))
                later(seconds=61)
        finally:
            fake_github.settings.primary_limits, fake_github.settings.rest_points_per_hour = False, None
        refusal(answers[-1], 429, "github_rate_limited")
        assert sum(answer.status_code == 200 for answer in answers) in range(15, 20)  # GitHub gives 20


class TestGetBranch:
    def test_get_branch_names_every_freeze_that_covers_the_branch(self, acme: Tenant, web: WatchedBranch) -> None:
        early = factories.freeze(
            acme.session, acme.organization, [web], started_at=factories.now() - timedelta(minutes=9)
        )
        late = factories.freeze(acme.session, acme.organization, [web])
        factories.freeze(acme.session, acme.organization, [web], ended_at=factories.now())
        factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now())
        factories.freeze(acme.session, acme.organization, [web], started_at=factories.now() + timedelta(hours=1))
        shown = acme.key("repo:read").get(f"/v1/branches/{web.id}").json()
        assert (shown["frozen"], shown["freezeIds"]) == (True, [early.id, late.id])

    def test_get_branch_is_not_found_when_unknown_foreign_or_unwatched(
        self, acme: Tenant, globex: Tenant, repository: Repository
    ) -> None:
        foreign = factories.branch(acme.session, globex.repository("secret"))
        unwatched = factories.branch(acme.session, repository, "old", unwatched_at=factories.now())
        for branch_id in (foreign.id, unwatched.id, "wbr_00000000000000000000000000", repository.id, "main"):
            refusal(acme.key().get(f"/v1/branches/{branch_id}"), 404, "branch_not_found")
