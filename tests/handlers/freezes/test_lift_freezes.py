"""Ending freezes: one by its id, or all that lie inside a scope."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from models.freezes import Freeze
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.freezes.requests import EVERYTHING, in_hours, paths
from tests.harness.wakeups import RecordedWakeups


def covered(branch: WatchedBranch, *freeze_ids: str) -> dict[str, Any]:
    """Return a branch of acme/web as answers show it that these freezes still cover."""
    return {"branchId": branch.id, "repository": "acme/web", "branch": branch.name, "freezeIds": [*freeze_ids]}


class TestLiftFreeze:
    def test_lift_ends_the_freeze_and_leaves_github_to_workers(
        self, acme: Tenant, freeze: Freeze, wakeups: RecordedWakeups
    ) -> None:
        answer = acme.person("member").post(f"/v1/freezes/{freeze.id}/lift", {"reason": " The release is out "})
        shown = answer.json()
        assert answer.status_code == 200, answer.text
        assert (shown["state"], shown["endReason"], shown["endedBy"]["type"]) == ("ended", "lifted", "user")
        assert shown["endedAt"] is not None
        assert shown["releasedAt"] is None
        counts = {name: count for name, count in shown["targets"].items() if count}
        assert (counts, shown["gaps"]) == ({"total": 1, "releasing": 1}, [])
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.lifted"]
        assert factories.audit_entries(acme.session)[0].details["reason"] == "The release is out"

    def test_freezes_of_the_same_branch_name_each_other(self, acme: Tenant, web: WatchedBranch, freeze: Freeze) -> None:
        scope = {"type": "branch", "branchId": web.id}
        second = acme.key().post("/v1/freezes", {"scope": scope, "reason": "The same once more"}).json()
        others = [covered(web, freeze.id)]
        assert (second["alreadyFrozen"], second["alreadyFrozenCount"]) == (others, 1)
        lifted = acme.key().post(f"/v1/freezes/{second['id']}/lift").json()
        assert (lifted["stillFrozen"], lifted["stillFrozenCount"]) == (others, 1)
        lifted = acme.key().post(f"/v1/freezes/{freeze.id}/lift").json()
        assert (lifted["stillFrozen"], lifted["stillFrozenCount"]) == ([], 0)

    @pytest.mark.parametrize("body", [None, {}, {"reason": "over"}])
    def test_lift_accepts_a_body_or_none(self, acme: Tenant, freeze: Freeze, body: Any) -> None:
        assert acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/lift", body).status_code == 200

    def test_lift_takes_null_for_no_body(self, acme: Tenant, freeze: Freeze) -> None:
        headers = {"Content-Type": "application/json"}
        answer = acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/lift", headers=headers, content=b"null")
        assert answer.status_code == 200

    @pytest.mark.parametrize(
        ("body", "where"),
        [({"reason": ""}, "/reason"), ({"reason": "r" * 1001}, "/reason"), ({"force": True}, "/force"), ([], "")],
        ids=str,
    )
    def test_lift_rejects_another_body(self, acme: Tenant, freeze: Freeze, body: Any, where: str) -> None:
        answer = acme.key().post(f"/v1/freezes/{freeze.id}/lift", body)
        assert paths(refusal(answer, 422, "validation_failed")) == [where]

    def test_lift_of_an_ended_freeze_is_rejected(self, acme: Tenant, web: WatchedBranch, later: Any) -> None:
        timed = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        lifted = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        later(hours=1)
        for freeze in (timed, lifted):
            refusal(acme.key().post(f"/v1/freezes/{freeze.id}/lift"), 409, "not_frozen")
        assert acme.audit() == []


class TestLiftFreezes:
    def lift(self, acme: Tenant, **scope: Any) -> httpx.Response:
        return acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope, "reason": " over "})

    def test_lift_by_scope_ends_what_lies_inside_and_lists_what_stays_frozen(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        everything = factories.freeze(acme.session, acme.organization, [web, api])
        of_web = factories.freeze(
            acme.session,
            acme.organization,
            [web],
            scope={"type": "repositories", "repositories": ["acme/web"]},
        )
        shown = answered(self.lift(acme, type="repositories", repositories=["acme/web"]))
        assert [(row["id"], row["state"], row["endReason"]) for row in shown["data"]] == [
            (of_web.id, "ended", "lifted")
        ]
        assert shown["stillFrozen"] == [covered(web, everything.id)]
        assert shown["stillFrozenCount"] == 1
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.lifted"]
        assert factories.audit_entries(acme.session)[0].details["reason"] == "over"

    def test_lift_by_organization_ends_every_freeze(
        self, acme: Tenant, globex: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        scopes: list[dict[str, Any]] = [
            EVERYTHING,
            {"type": "glob", "patterns": ["acme/w*"]},
            {"type": "repositories", "repositories": ["acme/web"]},
            {"type": "branch", "branchId": web.id},
        ]
        made = {factories.freeze(acme.session, acme.organization, [web], scope=scope).id for scope in scopes}
        foreign = factories.freeze(acme.session, globex.organization)
        shown = self.lift(acme, type="organization").json()
        assert {row["id"] for row in shown["data"]} == made
        assert (shown["stillFrozen"], shown["stillFrozenCount"]) == ([], 0)
        acme.session.refresh(foreign)
        assert foreign.ended_at is None

    def test_lift_by_repositories_ends_a_glob_freeze_without_wildcards(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        literal = {"type": "glob", "patterns": ["acme/web"]}
        made = factories.freeze(acme.session, acme.organization, [web], scope=literal)
        wild = factories.freeze(acme.session, acme.organization, [web], scope={"type": "glob", "patterns": ["acme/w*"]})
        shown = self.lift(acme, type="repositories", repositories=["acme/web"]).json()
        assert [row["id"] for row in shown["data"]] == [made.id]
        assert shown["stillFrozen"] == [covered(web, wild.id)]

    def test_lift_by_glob_ends_the_freezes_of_patterns_that_it_covers(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        inside = [["acme/w*"], ["acme/*", "!acme/docs"]]
        outside = [["*/*"]]
        made = [
            factories.freeze(acme.session, acme.organization, [web], scope={"type": "glob", "patterns": patterns}).id
            for patterns in [*inside, *outside]
        ]
        shown = self.lift(acme, type="glob", patterns=["acme/*"]).json()
        assert {row["id"] for row in shown["data"]} == set(made[: len(inside)])
        assert shown["stillFrozen"] == [covered(web, *made[len(inside) :])]

    def test_lift_by_scope_names_wider_freezes_and_changes_nothing(
        self, acme: Tenant, web: WatchedBranch, freeze: Freeze
    ) -> None:
        for scope in ({"type": "branch", "branchId": web.id}, {"type": "glob", "patterns": ["*/*"]}):
            assert freeze.id in refusal(self.lift(acme, **scope), 409, "invalid_state")["message"]
        acme.session.refresh(freeze)
        assert freeze.ended_at is None

    def test_lift_by_repositories_keeps_a_freeze_that_also_covers_others(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        both = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
        made = factories.freeze(acme.session, acme.organization, [web, api], scope=both)
        answer = self.lift(acme, type="repositories", repositories=["acme/web"])
        assert made.id in refusal(answer, 409, "invalid_state")["message"]
        assert self.lift(acme, **both).json()["data"][0]["id"] == made.id

    def test_lift_by_scope_is_rejected_when_nothing_is_frozen(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        refusal(self.lift(acme, type="organization"), 409, "not_frozen")
        factories.freeze(acme.session, acme.organization, [web], scope={"type": "branch", "branchId": web.id})
        refusal(self.lift(acme, type="repositories", repositories=["acme/api"]), 409, "not_frozen")

    def test_lift_by_scope_is_rejected_when_it_reaches_no_watched_branch(self, acme: Tenant) -> None:
        acme.repository("web")
        refusal(self.lift(acme, type="organization"), 409, "not_frozen")
        refusal(self.lift(acme, type="repositories", repositories=["acme/web"]), 409, "not_frozen")

    def test_lift_by_organization_ends_freezes_without_reachable_branch(
        self, acme: Tenant, web: WatchedBranch, freeze: Freeze
    ) -> None:
        acme.session.get_one(Repository, web.repository_id).removed_at = factories.now()
        acme.session.flush()
        assert [row["id"] for row in self.lift(acme, type="organization").json()["data"]] == [freeze.id]

    def test_lift_by_scope_requires_a_scope(self, acme: Tenant) -> None:
        assert paths(refusal(acme.key().post("/v1/freezes/lift", {}), 400, "missing_parameter")) == ["/scope"]


NOTHING = {
    "releasedBranchCount": 0,
    "frozenBranchCount": 0,
    "frozenBranches": [],
    "freezeCount": 0,
    "freezes": [],
}


class TestPreviewLift:
    def test_preview_names_what_stays_frozen_and_why(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        docs = factories.watched(acme.session, acme.organization, "acme/docs")
        freeze = factories.freeze(acme.session, acme.organization, [web, api, docs])
        narrow = factories.freeze(acme.session, acme.organization, [api], reason="One of them")
        wide = factories.freeze(acme.session, acme.organization, [web, api], reason="Two of them")
        ended = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        factories.target(acme.session, ended, docs, operation="release", state="released")
        preview = acme.key("freeze:read").get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert preview == {
            "releasedBranchCount": 1,
            "frozenBranchCount": 2,
            "frozenBranches": [
                {"branchId": api.id, "repository": "acme/api", "branch": "main"},
                {"branchId": web.id, "repository": "acme/web", "branch": "main"},
            ],
            "freezeCount": 2,
            "freezes": [
                {"freezeId": wide.id, "reason": "Two of them", "branchCount": 2},
                {"freezeId": narrow.id, "reason": "One of them", "branchCount": 1},
            ],
        }
        assert acme.audit() == []

    def test_preview_lists_ten_and_counts_all(self, acme: Tenant) -> None:
        branches = [factories.watched(acme.session, acme.organization, f"acme/r{number}") for number in range(11)]
        freeze = factories.freeze(acme.session, acme.organization, branches)
        for branch in branches:
            factories.freeze(acme.session, acme.organization, [branch])
        preview = acme.key().get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert (preview["frozenBranchCount"], len(preview["frozenBranches"])) == (11, 10)
        assert (preview["freezeCount"], len(preview["freezes"])) == (11, 10)

    def test_preview_of_an_ended_freeze_is_empty(self, acme: Tenant, web: WatchedBranch, later: Any) -> None:
        timed = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        factories.freeze(acme.session, acme.organization, [web])
        later(hours=1)
        assert acme.key().get(f"/v1/freezes/{timed.id}/lift-preview").json() == NOTHING


class TestExtendFreeze:
    def extend(self, acme: Tenant, freeze: Freeze, ends_at: Any) -> httpx.Response:
        return acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/extend", {"endsAt": ends_at})

    def test_open_end_can_be_set_to_any_future_end(
        self, acme: Tenant, freeze: Freeze, wakeups: RecordedWakeups
    ) -> None:
        ends_at = in_hours(1)
        shown = self.extend(acme, freeze, ends_at).json()
        assert datetime.fromisoformat(shown["endsAt"]) == datetime.fromisoformat(ends_at)
        assert shown["state"] == "in_force"
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.extended"]

    def test_bounded_end_can_be_moved_later_or_removed(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=2))
        assert paths(refusal(self.extend(acme, freeze, in_hours(1)), 422, "invalid_parameter")) == ["/endsAt"]
        assert self.extend(acme, freeze, in_hours(3)).status_code == 200
        assert self.extend(acme, freeze, None).json()["endsAt"] is None

    def test_end_in_the_past_is_rejected(self, acme: Tenant, freeze: Freeze) -> None:
        assert paths(refusal(self.extend(acme, freeze, in_hours(-1)), 422, "invalid_parameter")) == ["/endsAt"]

    @pytest.mark.parametrize(
        ("body", "status", "code", "where"),
        [
            ({}, 400, "missing_parameter", "/endsAt"),
            ({"endsAt": "soon"}, 422, "validation_failed", "/endsAt"),
            ({"endsAt": None, "reason": "x"}, 422, "validation_failed", "/reason"),
        ],
        ids=str,
    )
    def test_extension_rejects_another_body(
        self, acme: Tenant, freeze: Freeze, body: Any, status: int, code: str, where: str
    ) -> None:
        answer = acme.key().post(f"/v1/freezes/{freeze.id}/extend", body)
        assert paths(refusal(answer, status, code)) == [where]

    def test_extension_of_an_ended_freeze_is_rejected(self, acme: Tenant, later: Any) -> None:
        timed = factories.freeze(acme.session, acme.organization, ends_at=factories.now() + timedelta(hours=1))
        lifted = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        later(hours=1)
        for freeze in (timed, lifted):
            refusal(self.extend(acme, freeze, None), 409, "invalid_state")


class TestRetryFreeze:
    @pytest.mark.parametrize(("operation", "state"), [("apply", "pending"), ("release", "releasing")])
    def test_retry_makes_failed_targets_due_in_force_or_ended(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch, wakeups: RecordedWakeups, operation: str, state: str
    ) -> None:
        ended: dict[str, Any] = {"ended_at": factories.now(), "end_reason": "lifted"} if operation == "release" else {}
        freeze = factories.freeze(acme.session, acme.organization, **ended)
        factories.target(acme.session, freeze, web, operation=operation, state="failed", last_error_code="x")
        factories.target(acme.session, freeze, api, operation=operation, state="applied")
        shown = acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/retry").json()
        assert (shown["targets"][state], shown["targets"]["failed"], shown["targets"]["applied"]) == (1, 0, 1)
        acme.session.expire_all()
        assert [factories.check(acme.session, each).due_at is not None for each in (web, api)] == [True, False]
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.retried"]

    def test_retry_without_a_failed_target_is_rejected(self, acme: Tenant, freeze: Freeze) -> None:
        refusal(acme.key().post(f"/v1/freezes/{freeze.id}/retry"), 409, "invalid_state")
