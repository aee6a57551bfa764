"""Pull requests of a repository, and one that is looked up."""

from typing import Any

import pytest

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.people import through_pages
from tools.fake_github import Handle


class TestListPullRequests:
    def numbers(self, acme: Tenant, **filters: Any) -> list[int]:
        page = acme.key("freeze:read").get("/v1/repos/acme%2Fweb/pulls", **filters).json()
        return [row["number"] for row in page["data"]]

    def test_list_pull_requests_returns_the_highest_number_first(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        for number in (3, 1, 5, 2, 4):
            factories.pull_request(acme.session, repository, number)
        assert self.numbers(acme) == [5, 4, 3, 2, 1]

    def test_list_pull_requests_shows_only_those_into_watched_branches(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.branch(acme.session, repository, "old", unwatched_at=factories.now())
        factories.pull_request(acme.session, repository, 1)
        factories.pull_request(acme.session, repository, 2, base_branch="old")
        factories.pull_request(acme.session, repository, 3, base_branch="feature")
        assert self.numbers(acme) == [1]

    def test_list_pull_requests_applies_its_filters(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        release = factories.branch(acme.session, repository, "release/1")
        factories.freeze(acme.session, acme.organization, [release])
        factories.pull_request(acme.session, repository, 1)
        factories.pull_request(acme.session, repository, 2, state="closed")
        factories.pull_request(acme.session, repository, 3, base_branch="release/1")
        assert self.numbers(acme, state="open") == [3, 1]
        assert self.numbers(acme, state="closed") == [2]
        assert self.numbers(acme, base="release/1") == [3]
        assert self.numbers(acme, verdict="blocked") == [3]
        assert self.numbers(acme, verdict="allowed") == [2, 1]

    def test_pages_of_pull_requests_of_a_verdict_skip_the_others(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, repository, "release/1")])
        for number in range(1, 11):
            base = "release/1" if number % 3 == 0 else "main"
            factories.pull_request(acme.session, repository, number, base_branch=base)
        shown = through_pages(acme.key(), "/v1/repos/acme%2Fweb/pulls", verdict="blocked")
        assert [row["number"] for row in shown] == [9, 6, 3]


class TestLookupPullRequest:
    def look_up(self, acme: Tenant, ref: str, **params: Any) -> dict[str, Any]:
        return answered(acme.key("freeze:read").get("/v1/pulls/lookup", ref=ref, **params))

    @pytest.mark.parametrize("ref", ["acme/web#7", "ACME/Web#7", "7", "#7", "{github}/acme/web/pull/7/files?w=1#diff"])
    def test_lookup_pull_request_accepts_every_form_of_reference(
        self, acme: Tenant, web: WatchedBranch, served_fake_github: Handle, ref: str
    ) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
        assert self.look_up(acme, ref.format(github=served_fake_github.base_url))["id"] == pull.id

    def test_lookup_pull_request_rejects_an_address_of_another_host(self, acme: Tenant, web: WatchedBranch) -> None:
        answer = acme.key().get("/v1/pulls/lookup", ref="https://elsewhere.example/acme/web/pull/7")
        assert refusal(answer, 400, "invalid_parameter")["details"][0]["path"] == "ref"

    def test_lookup_pull_request_shows_every_field(self, acme: Tenant, web: WatchedBranch) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
        freeze = factories.freeze(acme.session, acme.organization, [web])
        shown = self.look_up(acme, "7")
        check = shown.pop("check")
        assert "Release under way" in check.pop("summary")
        assert check == {
            "state": "pending",
            "writtenAt": None,
            "name": "change-freeze/main",
            "conclusion": None,
            "title": "Merging into main is frozen until it is lifted",
        }
        [covering] = shown.pop("freezes")
        assert (covering["id"], covering["exceptionId"]) == (freeze.id, None)
        assert shown == {
            "id": pull.id,
            "repository": "acme/web",
            "number": 7,
            "title": pull.title,
            "author": "ada",
            "url": pull.url,
            "baseBranch": "main",
            "branchId": web.id,
            "headSha": pull.head_sha,
            "state": "open",
            "verdict": "blocked",
            "blocking": {
                "state": "unknown",
                "gaps": ["not_read"],
                "bypassActorCount": None,
                "byStop": False,
                "message": "GitHub's rules were not read yet.",
            },
            "frozen": True,
            "frozenUntil": None,
            "nextChangeAt": None,
            "freezeIds": [freeze.id],
            "exceptionIds": [],
            "exceptions": [],
            "exceptionRules": [],
            "patternCheck": None,
            "sharedHeadWith": [],
        }

    def test_check_state_is_written_when_the_verdict_is_shown(self, acme: Tenant, web: WatchedBranch) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
        factories.head_check(acme.session, web, pull.head_sha, "success")
        assert self.look_up(acme, "7")["check"]["state"] == "written"
        factories.freeze(acme.session, acme.organization, [web])
        shown = self.look_up(acme, "7")
        assert (shown["verdict"], shown["check"]["state"]) == ("blocked", "pending")
        assert shown["check"]["writtenAt"] is not None

    @pytest.mark.parametrize(
        ("code", "state"), [("github_permission_denied", "failed"), ("github_rate_limited", "pending")]
    )
    def test_check_state_is_failed_when_writing_fails(
        self, acme: Tenant, web: WatchedBranch, code: str, state: str
    ) -> None:
        factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
        check = factories.check(acme.session, web)
        check.attempts, check.last_error_code = 1, code
        acme.session.flush()
        assert self.look_up(acme, "7")["check"]["state"] == state

    def test_pull_request_is_blocked_by_a_frozen_sibling_without_a_rule(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        shared = {"pattern_check_name": "change-freeze/release/*"}
        first = factories.branch(acme.session, repository, "release/1", **shared)
        second = factories.branch(acme.session, repository, "release/2", **shared)
        head = factories.sha("shared")
        factories.pull_request(acme.session, repository, 1, base_branch=first.name, head_sha=head)
        factories.pull_request(acme.session, repository, 2, base_branch=second.name, head_sha=head)
        factories.pull_request(acme.session, repository, 3, head_sha=head)
        factories.freeze(acme.session, acme.organization, [second])
        shown = {number: self.look_up(acme, str(number)) for number in (1, 2, 3)}
        assert {number: row["verdict"] for number, row in shown.items()} == {1: "blocked", 2: "blocked", 3: "allowed"}
        assert shown[1]["freezeIds"] == []
        assert shown[1]["check"]["title"] == "No freeze covers this branch"
        assert "`release/2`" in shown[1]["patternCheck"]["summary"]
        assert shown[3]["patternCheck"] is None
        factories.branch_enforcement(acme.session, second)
        assert self.look_up(acme, "1")["verdict"] == "allowed"
        assert [other["number"] for other in shown[1]["sharedHeadWith"]] == [2, 3]

    @pytest.mark.parametrize(("state", "verdict"), [("open", "blocked"), ("closed", "allowed")])
    def test_pull_request_of_the_same_head_needs_an_exception_while_open(
        self, acme: Tenant, web: WatchedBranch, state: str, verdict: str
    ) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        head = factories.sha("shared")
        first = factories.pull_request(acme.session, repository, 1, head_sha=head)
        factories.pull_request(acme.session, repository, 2, head_sha=head, state=state)
        freeze = factories.freeze(acme.session, acme.organization, [web])
        factories.exception(acme.session, freeze, first, web, decided_by={"type": "user", "id": None, "name": "Linus"})
        assert self.look_up(acme, "1")["verdict"] == verdict

    def test_bare_number_requires_a_repository_when_several_are_enabled(self, acme: Tenant, web: WatchedBranch) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
        acme.repository("api")
        error = refusal(acme.key().get("/v1/pulls/lookup", ref="7"), 400, "missing_parameter")
        assert [detail["code"] for detail in error["details"]] == ["missing_parameter"]
        assert error["details"][0]["path"] == "repo"
        assert self.look_up(acme, "7", repo="acme/web")["id"] == pull.id
        assert self.look_up(acme, "7", repo=web.repository_id)["id"] == pull.id
        assert self.look_up(acme, "acme/web#7", repo=web.repository_id)["id"] == pull.id

    def test_lookup_rejects_a_reference_that_contradicts_the_repository(self, acme: Tenant, web: WatchedBranch) -> None:
        acme.repository("api")
        answer = acme.key().get("/v1/pulls/lookup", ref="acme/web#7", repo="acme/api")
        assert refusal(answer, 400, "invalid_parameter")["details"][0]["path"] == "repo"

    @pytest.mark.parametrize("ref", ["nonsense", "0", "acme/web#0", "acme/web", "https://github.com/acme/web/issues/7"])
    def test_lookup_rejects_an_unknown_form_of_reference(self, acme: Tenant, web: WatchedBranch, ref: str) -> None:
        answer = acme.key().get("/v1/pulls/lookup", ref=ref)
        assert refusal(answer, 400, "invalid_parameter")["details"][0]["path"] == "ref"

    def test_lookup_of_an_untracked_pull_request_is_not_found(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.pull_request(acme.session, repository, 7, base_branch="unwatched")
        for ref in ("7", "8", "2147483647"):
            refusal(acme.key().get("/v1/pulls/lookup", ref=ref), 404, "pull_request_not_found")
        refusal(acme.key().get("/v1/pulls/lookup", ref="acme/nothing#7"), 404, "repository_not_found")

    def test_lookup_in_a_disabled_repository_is_not_found(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        factories.pull_request(acme.session, repository, 7)
        repository.enabled = False
        acme.session.flush()
        refusal(acme.key().get("/v1/pulls/lookup", ref="acme/web#7"), 404, "pull_request_not_found")
