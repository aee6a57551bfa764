"""Scopes in answers and in the audit log have the names that GitHub has, however they were written."""

from typing import Any

import pytest

from models.freezes import Freeze
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.freezes.requests import FIRST, paths
from tests.handlers.schedules.requests import FIRST as SCHEDULE


def named(branch: WatchedBranch, repository: str = "acme/web") -> dict[str, Any]:
    return {"type": "branch", "branchId": branch.id, "repository": repository, "branch": branch.name}


def started(acme: Tenant, scope: dict[str, Any]) -> dict[str, Any]:
    return answered(acme.key().post("/v1/freezes", {**FIRST, "scope": scope}), 201)


def scheduled(acme: Tenant, scope: dict[str, Any]) -> dict[str, Any]:
    return answered(acme.key().post("/v1/schedules", {**SCHEDULE, "scope": scope}), 201)


class TestNamesInAnswers:
    def test_branch_given_by_its_id_is_shown_with_its_names(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = started(acme, {"type": "branch", "branchId": web.id})
        schedule = scheduled(acme, {"type": "branch", "branchId": web.id})
        key = acme.key()
        shown = [
            freeze,
            key.get(f"/v1/freezes/{freeze['id']}").json(),
            key.get("/v1/freezes").json()["data"][0],
            key.get("/v1/overview").json()["freezes"]["newest"][0],
            schedule,
            key.get("/v1/schedules").json()["data"][0],
        ]
        assert [each["scope"] for each in shown] == [named(web)] * len(shown)

    def test_branch_given_by_its_names_is_shown_as_at_github(self, acme: Tenant, web: WatchedBranch) -> None:
        shown = started(acme, {"type": "branch", "repository": "ACME/Web", "branch": "main"})
        assert shown["scope"] == named(web)

    def test_repositories_are_shown_as_at_github(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        given = ["ACME/Web", api.repository_id, web.repository_id]
        scope = {"type": "repositories", "repositories": given, "branches": ["main"]}
        assert started(acme, scope)["scope"] == {**scope, "repositories": ["acme/web", "acme/api"]}

    def test_patterns_are_shown_as_they_were_written(self, acme: Tenant, web: WatchedBranch) -> None:
        scope = {"type": "glob", "patterns": ["ACME/*"]}
        assert started(acme, scope)["scope"] == scope

    @pytest.mark.parametrize("by", ["id", "name"])
    def test_renamed_repository_has_its_new_name(
        self, acme: Tenant, repository: Repository, web: WatchedBranch, by: str
    ) -> None:
        place = {"branchId": web.id} if by == "id" else {"repository": "acme/web", "branch": "main"}
        freeze = started(acme, {"type": "branch", **place})
        repository.name = "Shop"
        acme.session.commit()
        assert acme.key().get(f"/v1/freezes/{freeze['id']}").json()["scope"] == named(web, "acme/Shop")

    @pytest.mark.parametrize("by", ["id", "name"])
    def test_what_left_has_the_names_that_were_known_last(
        self, acme: Tenant, repository: Repository, web: WatchedBranch, by: str
    ) -> None:
        place = {"branchId": web.id} if by == "id" else {"repository": "ACME/web", "branch": "main"}
        whole = started(acme, {"type": "repositories", "repositories": ["ACME/web"]})
        freeze = started(acme, {"type": "branch", **place})
        repository.removed_at = web.unwatched_at = factories.now()
        acme.session.commit()
        assert acme.key().get(f"/v1/freezes/{freeze['id']}").json()["scope"] == named(web)
        assert acme.key().get(f"/v1/freezes/{whole['id']}").json()["scope"]["repositories"] == ["acme/web"]

    def test_scope_of_which_nothing_is_known_stays_readable(self, acme: Tenant) -> None:
        scopes: list[dict[str, Any]] = [
            {"type": "branch", "branchId": "wbr_1"},
            {"type": "branch", "repository": "acme/gone", "branch": "main"},
            {"type": "repositories", "repositories": ["acme/gone"]},
        ]
        made = {factories.freeze(acme.session, acme.organization, scope=scope).id: scope for scope in scopes}
        listed = acme.key().get("/v1/freezes").json()["data"]
        assert {freeze["id"]: freeze["scope"] for freeze in listed} == made

    def test_names_of_another_organisation_are_not_shown(
        self, acme: Tenant, globex: Tenant, web: WatchedBranch
    ) -> None:
        scope = {"type": "branch", "branchId": web.id}
        freeze = factories.freeze(acme.session, globex.organization, scope=scope)
        assert globex.key().get(f"/v1/freezes/{freeze.id}").json()["scope"] == scope

    def test_branches_that_other_freezes_cover_are_named(
        self, acme: Tenant, web: WatchedBranch, freeze: Freeze
    ) -> None:
        second = started(acme, {"type": "branch", "branchId": web.id})
        covered = {"branchId": web.id, "repository": "acme/web", "branch": "main", "freezeIds": [freeze.id]}
        assert second["alreadyFrozen"] == [covered]
        assert acme.key().post(f"/v1/freezes/{second['id']}/lift").json()["stillFrozen"] == [covered]


class TestScopeThatIsSentBack:
    def test_shown_scope_can_be_sent(self, acme: Tenant, web: WatchedBranch) -> None:
        first = started(acme, {"type": "branch", "branchId": web.id})
        assert started(acme, first["scope"])["scope"] == first["scope"]

    def test_name_that_is_not_the_branch_of_the_id_is_rejected(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        factories.branch(acme.session, repository, "next")
        wrong = {**named(web), "branch": "next"}
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "scope": wrong}), 422, "invalid_parameter")
        assert paths(error) == ["/scope/branch"]
        schedule = scheduled(acme, named(web))
        error = refusal(acme.key().patch(f"/v1/schedules/{schedule['id']}", {"scope": wrong}), 422, "invalid_parameter")
        assert paths(error) == ["/scope/branch"]

    def test_schedule_is_not_changed_by_the_scope_that_it_shows(self, acme: Tenant, web: WatchedBranch) -> None:
        stored = {"type": "branch", "branchId": web.id}
        schedule = scheduled(acme, stored)
        for scope in (schedule["scope"], stored, {"type": "branch", "repository": "acme/WEB", "branch": "main"}):
            answer = acme.key().patch(f"/v1/schedules/{schedule['id']}", {"scope": scope})
            assert answer.json()["updatedAt"] == schedule["updatedAt"]
        assert acme.audit() == ["schedule.created"]


class TestNamesInTheAudit:
    def test_audit_names_the_branch_of_a_freeze_and_a_schedule(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        scope = {"type": "branch", "branchId": web.id}
        started(acme, scope)
        path = f"/v1/schedules/{scheduled(acme, scope)['id']}"
        acme.key().patch(path, {"scope": {"type": "branch", "branchId": api.id}})
        acme.key().delete(path)
        acme.key().post("/v1/freezes/lift", {"scope": scope})
        acme.key().post("/v1/enforcement/verify", {"scope": scope})
        details = {each.action: each.details for each in factories.audit_entries(acme.session)}
        assert details["freeze.started"]["after"]["scope"] == named(web)
        assert details["schedule.created"]["after"]["scope"] == named(web)
        changed = details["schedule.updated"]
        assert (changed["before"]["scope"], changed["after"]["scope"]) == (named(web), named(api, "acme/api"))
        assert details["schedule.deleted"]["before"]["scope"] == named(api, "acme/api")
        assert details["freeze.lifted"]["scope"] == details["enforcement.verify_requested"]["scope"] == named(web)
