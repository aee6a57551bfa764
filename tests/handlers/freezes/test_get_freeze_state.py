"""Whether something is frozen, and that every other read agrees."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.freezes.requests import REASON, paths, text

HOUR = timedelta(hours=1)


class TestGetFreezeState:
    def ask(self, acme: Tenant, **asked: str) -> dict[str, Any]:
        return answered(acme.key("freeze:read").get("/v1/freeze-state", **asked))

    def test_branch_state_names_the_covering_freezes(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        soon, late = (factories.now().replace(microsecond=0) + timedelta(hours=hours) for hours in (1, 2))
        first = factories.freeze(acme.session, acme.organization, [web], ends_at=late, exceptions_allowed=False)
        second = factories.freeze(acme.session, acme.organization, [web], ends_at=soon, started_at=factories.now())
        expected = {
            "frozen": True,
            "enforced": False,
            "coverage": "all",
            "frozenBranchCount": 1,
            "watchedBranchCount": 1,
            "subject": {"type": "branch", "id": web.id, "name": "acme/web:main"},
            "freezes": [
                {
                    "id": freeze.id,
                    "reason": freeze.reason,
                    "startedAt": text(freeze.started_at).replace("000Z", "Z"),
                    "endsAt": text(freeze.ends_at or soon),
                    "exceptionsAllowed": freeze.exceptions_allowed,
                }
                for freeze in (second, first)
            ],
            "freezesTruncated": False,
            "branches": [],
            "branchesTruncated": False,
            "frozenUntil": text(late),
            "nextChangeAt": text(soon),
        }
        assert self.ask(acme, branchId=web.id) == expected
        assert self.ask(acme, repo="acme/web", branch="main") == expected
        assert self.ask(acme, repo=web.repository_id, branch="main") == expected
        assert self.ask(acme, repo="acme/api", branch="main")["frozen"] is False

    def test_repository_state_lists_each_branch(self, acme: Tenant, web: WatchedBranch) -> None:
        release = factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "release/1")
        factories.branch(
            acme.session, acme.session.get_one(Repository, web.repository_id), "old", unwatched_at=factories.now()
        )
        freeze = factories.freeze(acme.session, acme.organization, [web])
        state = self.ask(acme, repo="ACME/Web")
        assert state["subject"] == {"type": "repository", "id": web.repository_id, "name": "acme/web"}
        assert (state["frozen"], state["coverage"]) == (True, "some")
        assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (1, 2)
        assert [row["id"] for row in state["freezes"]] == [freeze.id]
        assert state["branches"] == [
            {"branchId": web.id, "name": "main", "frozen": True},
            {"branchId": release.id, "name": "release/1", "frozen": False},
        ]
        factories.freeze(acme.session, acme.organization, [release])
        assert self.ask(acme, repo="acme/web")["coverage"] == "all"

    def test_repository_state_without_a_watched_branch_is_none(self, acme: Tenant) -> None:
        acme.repository("web")
        state = self.ask(acme, repo="acme/web")
        assert (state["frozen"], state["coverage"], state["watchedBranchCount"]) == (False, "none", 0)

    def test_organization_state_counts_all_branches(
        self, acme: Tenant, globex: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        foreign = factories.watched(acme.session, globex.organization, "globex/secret")
        factories.freeze(acme.session, globex.organization, [foreign])
        assert self.ask(acme, organization="current")["coverage"] == "none"
        freeze = factories.freeze(acme.session, acme.organization, [web])
        state = self.ask(acme, organization="current")
        assert state["subject"] == {"type": "organization", "id": acme.id, "name": "Acme"}
        assert (state["coverage"], state["frozenBranchCount"], state["watchedBranchCount"]) == ("some", 1, 2)
        assert [row["id"] for row in state["freezes"]] == [freeze.id]
        assert state["branches"] == []

    def test_organization_state_omits_freezes_of_uncovered_repositories(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web])
        acme.session.get_one(Repository, web.repository_id).removed_at = factories.now()
        acme.session.flush()
        state = self.ask(acme, organization="current")
        assert (state["frozen"], state["freezes"], state["watchedBranchCount"]) == (False, [], 1)

    def test_state_follows_the_clock_and_not_the_sweeper(self, acme: Tenant, web: WatchedBranch, later: Any) -> None:
        factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        for asked in ({"branchId": web.id}, {"repo": "acme/web"}, {"organization": "current"}):
            assert self.ask(acme, **asked)["frozen"] is True
        later(hours=1)
        for asked in ({"branchId": web.id}, {"repo": "acme/web"}, {"organization": "current"}):
            state = self.ask(acme, **asked)
            assert (state["frozen"], state["freezes"], state["nextChangeAt"]) == (False, [], None)

    @pytest.mark.parametrize(
        "scope",
        [
            {"type": "organization"},
            {"type": "organization", "branches": ["main"]},
            {"type": "glob", "patterns": ["acme/s*"]},
            {"type": "repositories", "repositories": ["ACME/web"]},
            {"type": "repositories", "repositories": ["acme/Site"]},
            {"type": "branch", "repository": "acme/web", "branch": "main"},
        ],
        ids=str,
    )
    def test_next_change_is_the_start_of_a_planned_window(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch, scope: dict[str, Any]
    ) -> None:
        start = factories.now().replace(microsecond=0) + timedelta(hours=2)
        elsewhere = factories.schedule(acme.session, acme.organization, scope={"type": "branch", "branchId": api.id})
        factories.occurrence(acme.session, elsewhere, starts_at=start - timedelta(hours=1))
        stopped = factories.schedule(acme.session, acme.organization, enabled=False)
        factories.occurrence(acme.session, stopped, starts_at=start - timedelta(hours=1))
        acme.session.get_one(Repository, web.repository_id).name = "Site"
        acme.session.flush()
        planned = factories.schedule(acme.session, acme.organization, scope=scope)
        factories.occurrence(acme.session, planned, starts_at=start - timedelta(minutes=5), skip_reason="asked")
        factories.occurrence(acme.session, planned, starts_at=start + timedelta(days=1))
        factories.occurrence(acme.session, planned, starts_at=start)
        forms = [{"branchId": web.id}, {"repo": "acme/site", "branch": "main"}, {"repo": "acme/site"}]
        assert [self.ask(acme, **form)["nextChangeAt"] for form in forms] == [text(start)] * 3
        assert self.ask(acme, organization="current")["nextChangeAt"] == text(start - timedelta(hours=1))
        factories.freeze(acme.session, acme.organization, [web], ends_at=start + timedelta(minutes=1))
        assert self.ask(acme, branchId=web.id)["nextChangeAt"] == text(start)
        factories.freeze(acme.session, acme.organization, [web], ends_at=start - timedelta(minutes=1))
        assert self.ask(acme, branchId=web.id)["nextChangeAt"] == text(start - timedelta(minutes=1))

    def test_state_is_frozen_until_the_windows_that_follow_end(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        end = factories.now().replace(microsecond=0) + HOUR
        forms = ({"branchId": web.id}, {"repo": "acme/web"}, {"organization": "current"})

        def until() -> list[Any]:
            return [self.ask(acme, **form)["frozenUntil"] for form in forms]

        elsewhere = factories.schedule(acme.session, acme.organization, scope={"type": "branch", "branchId": api.id})
        factories.occurrence(acme.session, elsewhere, starts_at=end, ends_at=end + 9 * HOUR)
        assert until() == [None] * 3
        freeze = factories.freeze(acme.session, acme.organization, [web], ends_at=end)
        assert until() == [text(end), text(end), text(end + 9 * HOUR)]
        following = factories.schedule(acme.session, acme.organization, scope={"type": "branch", "branchId": web.id})
        for hours in (0, 1, 2, 4):
            start = end + hours * HOUR
            factories.occurrence(acme.session, following, starts_at=start, ends_at=start + HOUR)
        assert until() == [text(end + 3 * HOUR), text(end + 3 * HOUR), text(end + 9 * HOUR)]
        freeze.ends_at = None
        acme.session.commit()
        assert until() == [None] * 3
        assert [self.ask(acme, **form)["frozen"] for form in forms] == [True] * 3

    def test_next_change_ignores_windows_of_the_successor_of_a_name(self, acme: Tenant, web: WatchedBranch) -> None:
        acme.session.get_one(Repository, web.repository_id).name = "site"
        acme.session.flush()
        new = factories.watched(acme.session, acme.organization, "acme/web")
        planned = factories.schedule(
            acme.session, acme.organization, scope={"type": "repositories", "repositories": ["acme/web"]}
        )
        row = factories.occurrence(acme.session, planned, starts_at=factories.now().replace(microsecond=0) + HOUR)
        assert self.ask(acme, branchId=web.id)["nextChangeAt"] is None
        assert self.ask(acme, branchId=new.id)["nextChangeAt"] == text(row.starts_at)

    def test_state_lists_twenty_freezes_and_a_hundred_branches(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        branches = [factories.branch(acme.session, repository, f"release/{number}") for number in range(100)]
        for _ in range(21):
            factories.freeze(acme.session, acme.organization, [web, branches[0]])
        state = self.ask(acme, repo="acme/web")
        assert (len(state["freezes"]), state["freezesTruncated"]) == (20, True)
        assert (len(state["branches"]), state["branchesTruncated"]) == (100, True)
        assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (2, 101)

    def test_state_follows_renames(self, acme: Tenant, web: WatchedBranch) -> None:
        repository = acme.session.get_one(Repository, web.repository_id)
        repository.name = "website"
        acme.session.flush()
        for name in ("acme/Web", "acme/website"):
            assert self.ask(acme, repo=name)["subject"]["name"] == "acme/website"
            assert self.ask(acme, repo=name, branch="main")["subject"]["id"] == web.id
        new = factories.repository(acme.session, acme.organization, "acme/web")
        assert self.ask(acme, repo="acme/web")["subject"]["id"] == new.id

    @pytest.mark.parametrize(
        "columns", [{"enabled": False}, {"removed_at": factories.now()}], ids=["disabled", "removed"]
    )
    def test_state_of_a_repository_that_is_not_covered_is_not_found(
        self, acme: Tenant, web: WatchedBranch, columns: dict[str, Any]
    ) -> None:
        acme.session.execute(update(Repository).where(Repository.id == web.repository_id).values(columns))
        for asked in ({"repo": "acme/web"}, {"repo": web.repository_id, "branch": "main"}, {"branchId": web.id}):
            refusal(acme.key().get("/v1/freeze-state", **asked), 404, "repository_not_found")

    def test_state_of_an_unwatched_branch_is_not_found(self, acme: Tenant, web: WatchedBranch) -> None:
        old = factories.branch(
            acme.session, acme.session.get_one(Repository, web.repository_id), "old", unwatched_at=factories.now()
        )
        asked: list[dict[str, str]] = [
            {"branchId": old.id},
            {"repo": "acme/web", "branch": "old"},
            {"repo": "acme/web", "branch": "MAIN"},
            {"branchId": new_id("wbr")},
        ]
        for form in asked:
            refusal(acme.key().get("/v1/freeze-state", **form), 404, "branch_not_found")

    @pytest.mark.parametrize("asked", [{}, {"branch": "main"}], ids=str)
    def test_state_requires_a_form(self, acme: Tenant, asked: dict[str, str]) -> None:
        assert paths(refusal(acme.key().get("/v1/freeze-state", **asked), 400, "missing_parameter")) == ["repo"]

    def test_state_rejects_two_forms(self, acme: Tenant, web: WatchedBranch) -> None:
        cases: list[tuple[dict[str, str], list[str]]] = [
            ({"repo": "acme/web", "branchId": "wbr_1"}, ["branchId"]),
            ({"repo": "acme/web", "organization": "current"}, ["organization"]),
            ({"branchId": "wbr_1", "branch": "main"}, ["branch"]),
            ({"organization": "current", "branch": "main"}, ["branch"]),
            ({"repo": "acme/web", "branchId": "wbr_1", "organization": "current"}, ["branchId", "organization"]),
            ({"organization": "acme"}, ["organization"]),
        ]
        for asked, where in cases:
            assert paths(refusal(acme.key().get("/v1/freeze-state", **asked), 400, "invalid_parameter")) == where

    def test_unchanged_state_is_not_sent_again(self, acme: Tenant, web: WatchedBranch, later: Any) -> None:
        key = acme.key("freeze:read")

        def poll(tag: str) -> httpx.Response:
            headers = {"If-None-Match": tag}
            return key.send("GET", "/v1/freeze-state", params={"branchId": web.id}, headers=headers)

        first = poll('"never"')
        assert first.status_code == 200
        assert first.headers["etag"].startswith('"')
        assert (first.headers["cache-control"], first.headers["vary"]) == ("private, no-cache", "Authorization")
        later(minutes=5)
        for tag in (first.headers["etag"], "*", f'W/{first.headers["etag"]}, "other"'):
            again = poll(tag)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
            assert (again.headers["cache-control"], again.headers["vary"]) == ("private, no-cache", "Authorization")
            assert "ratelimit-remaining" in again.headers
            assert "ratelimit-reset" in again.headers
        factories.freeze(acme.session, acme.organization, [web])
        changed = poll(first.headers["etag"])
        assert (changed.status_code, changed.json()["frozen"]) == (200, True)
        assert changed.headers["etag"] != first.headers["etag"]


def test_every_read_agrees_that_a_branch_is_frozen(acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
    pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 7)
    key = acme.key()

    def shown() -> list[bool]:
        branch, repository = key.get(f"/v1/branches/{web.id}").json(), key.get("/v1/repos/acme%2Fweb").json()
        preview = key.post("/v1/scope/preview", {"scope": {"type": "branch", "branchId": web.id}}).json()
        pulls = key.get("/v1/repos/acme%2Fweb/pulls").json()["data"]
        return [
            key.get("/v1/freeze-state", branchId=web.id).json()["frozen"],
            key.get("/v1/freeze-state", repo="acme/web").json()["frozen"],
            key.get("/v1/freeze-state", organization="current").json()["frozen"],
            branch["frozen"],
            repository["frozen"],
            preview["repositories"][0]["branches"][0]["frozen"],
            [row["verdict"] for row in pulls if row["id"] == pull.id] == ["blocked"],
            key.get("/v1/pulls/lookup", ref="acme/web#7").json()["verdict"] == "blocked",
            len(key.get("/v1/freezes", branchId=web.id, state="in_force").json()["data"]) > 0,
            len(key.get("/v1/branches", frozen="true").json()["data"]) > 0,
        ]

    assert set(shown()) == {False}
    body = {"scope": {"type": "branch", "branchId": web.id}, "reason": REASON}
    first, second = (key.post("/v1/freezes", body).json()["id"] for _ in range(2))
    assert set(shown()) == {True}
    key.post(f"/v1/freezes/{first}/lift")
    assert set(shown()) == {True}
    key.post(f"/v1/freezes/{second}/lift")
    assert set(shown()) == {False}
