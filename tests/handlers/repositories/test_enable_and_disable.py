"""Enabling and disabling repositories: which branches are watched from then on."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.freezes import FreezeTarget
from tests import factories
from tests.handlers.callers import EVERYTHING, Tenant, answered, refusal
from tests.handlers.repositories.requests import names, rows_of
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github import FakeGitHub


class TestEnableRepositories:
    def test_enable_repositories_watches_the_default_branch(self, acme: Tenant, wakeups: RecordedWakeups) -> None:
        web = acme.repository("web", enabled=False, default_branch="trunk")
        answer = answered(acme.key("repo:write").post("/v1/repos/enable", {"repositories": ["Acme/WEB"]}))
        assert [(row["id"], row["enabled"], row["watchedBranchCount"]) for row in answer["data"]] == [(web.id, True, 1)]
        branch = rows_of(acme.session, web)["trunk"]
        assert branch.check_name == "change-freeze/trunk"
        assert (
            factories.check(acme.session, branch).wanted_generation
            > factories.check(acme.session, branch).written_generation
        )
        assert factories.check(acme.session, branch).due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["repository.enabled"]

    def test_enable_repositories_watches_matching_branches_under_the_pattern(self, acme: Tenant) -> None:
        globs = ["release/*", "!release/old"]
        web = acme.repository("web", "release/1", "release/old", "other", enabled=False, auto_watch=globs)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        watched = {name: row.check_names for name, row in rows_of(acme.session, web).items()}
        assert watched == {
            "main": ("change-freeze/main",),
            "release/1": ("change-freeze/release/1", "change-freeze/release/*"),
        }

    def test_enable_repositories_succeeds_while_github_is_unavailable(
        self, acme: Tenant, fake_github: FakeGitHub, wakeups: RecordedWakeups
    ) -> None:
        web = acme.repository("web", "release/1", enabled=False, auto_watch=["release/*"])
        fake_github.world.installations.pop(acme.installation.id)
        assert acme.key().post("/v1/repos/enable", {"repositories": [web.id]}).status_code == 200
        assert set(rows_of(acme.session, web)) == {"main"}
        assert "sync" in wakeups.sent

    def test_enable_repositories_answers_in_the_order_of_the_request(self, acme: Tenant) -> None:
        for name in ("a", "b", "c"):
            acme.repository(name, enabled=False)
        answer = acme.key().post("/v1/repos/enable", {"repositories": ["acme/c", "acme/a", "acme/b", "acme/a"]})
        assert names(answer.json()) == ["acme/c", "acme/a", "acme/b"]

    def test_enable_repositories_leaves_an_enabled_repository_unchanged(self, acme: Tenant) -> None:
        web = acme.repository("web")
        assert acme.key().post("/v1/repos/enable", {"repositories": [web.id]}).json()["data"][0]["enabled"] is True
        assert rows_of(acme.session, web) == {}

    def test_enable_repositories_rejects_unknown_repositories_as_a_whole(self, acme: Tenant, globex: Tenant) -> None:
        web, secret = acme.repository("web", enabled=False), globex.repository("secret")
        body = {"repositories": [web.id, "acme/nothing", secret.id, "nonsense"]}
        error = refusal(acme.key().post("/v1/repos/enable", body), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == ["/repositories/1", "/repositories/2", "/repositories/3"]
        acme.session.refresh(web)
        assert web.enabled is False
        assert rows_of(acme.session, web) == {}

    @pytest.mark.parametrize("scope", [{"type": "organization"}, {"type": "glob", "patterns": ["*/w*"]}])
    def test_enable_repositories_joins_open_freezes_that_cover_the_branch(
        self, acme: Tenant, scope: dict[str, Any]
    ) -> None:
        freeze = factories.freeze(acme.session, acme.organization, scope=scope)
        web, api = acme.repository("web", enabled=False), acme.repository("api", enabled=False)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        covered = {row.branch_id for row in acme.session.query(FreezeTarget).where(FreezeTarget.freeze_id == freeze.id)}
        assert covered == {rows_of(acme.session, web)["main"].id}
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is True
        assert acme.key().get(f"/v1/repos/{api.id}").json()["frozen"] is False

    def test_enable_repositories_joins_no_freeze_of_other_repositories(self, acme: Tenant) -> None:
        factories.freeze(acme.session, acme.organization, scope={"type": "glob", "patterns": ["acme/api"]})
        factories.freeze(acme.session, acme.organization, ended_at=factories.now())
        web = acme.repository("web", enabled=False)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is False

    def test_enable_repositories_beyond_the_plan_is_refused_as_a_whole(self, globex: Tenant, session: Session) -> None:
        web = globex.repository("web")
        for number in range(25):
            factories.branch(session, web, f"b{number}")
        api = globex.repository("api", enabled=False)
        error = refusal(globex.key().post("/v1/repos/enable", {"repositories": [api.id]}), 403, "feature_not_available")
        assert "25" in error["message"]
        session.refresh(api)
        assert api.enabled is False
        assert rows_of(session, api) == {}

    def test_branches_of_disabled_repositories_do_not_count_towards_the_plan(
        self, globex: Tenant, session: Session
    ) -> None:
        web = globex.repository("web", enabled=False)
        for number in range(26):
            factories.branch(session, web, f"b{number}")
        api = globex.repository("api", enabled=False)
        assert globex.key().post("/v1/repos/enable", {"repositories": [api.id]}).status_code == 200
        refusal(globex.key().post("/v1/repos/enable", {"repositories": [web.id]}), 403, "feature_not_available")

    def test_enable_repositories_rejects_an_empty_list(self, acme: Tenant) -> None:
        refusal(acme.key().post("/v1/repos/enable", {"repositories": []}), 422, "validation_failed")


class TestDisableRepositories:
    def test_disable_repositories_keeps_branches_reconciled(self, acme: Tenant, wakeups: RecordedWakeups) -> None:
        web = acme.repository("web")
        branch = factories.branch(acme.session, web)
        answer = acme.key("repo:write").post("/v1/repos/disable", {"repositories": [web.id]})
        assert answer.json()["data"][0]["enabled"] is False
        assert answer.json()["data"][0]["watchedBranchCount"] == 1
        acme.session.refresh(branch)
        assert branch.unwatched_at is None
        assert (
            factories.check(acme.session, branch).wanted_generation
            > factories.check(acme.session, branch).written_generation
        )
        assert factories.check(acme.session, branch).due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["repository.disabled"]

    def test_disable_repositories_is_refused_as_a_whole_for_a_frozen_branch(self, acme: Tenant) -> None:
        web, api = acme.repository("web"), acme.repository("api")
        factories.branch(acme.session, api)
        freeze = factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, web, "release/1")])
        body = {"repositories": ["acme/api", "acme/web"]}
        error = refusal(acme.key().post("/v1/repos/disable", body), 409, "already_frozen")
        assert "acme/web: release/1 is frozen" in error["message"]
        assert [detail["path"] for detail in error["details"]] == ["/repositories/1"]
        for row in (web, api):
            acme.session.refresh(row)
            assert row.enabled is True
        freeze.ended_at = factories.now()
        acme.session.flush()
        assert acme.key().post("/v1/repos/disable", body).status_code == 200

    def test_concurrent_freeze_and_disabling_leave_no_frozen_branch_disabled(self, acme: Tenant) -> None:
        key, api = acme.key(), factories.branch(acme.session, acme.repository("api"))
        assert api.unwatched_at is None
        for number in range(6):
            web = acme.repository(f"r{number}")
            branch = factories.branch(acme.session, web)
            freeze, disabled = at_once(
                lambda: key.post("/v1/freezes", EVERYTHING),
                lambda web=web: key.post("/v1/repos/disable", {"repositories": [web.id]}),  # type: ignore[misc]
            )
            frozen = key.get(f"/v1/branches/{branch.id}").json()["frozen"]
            assert (disabled.status_code, frozen) in {(200, False), (409, True)}
            key.post(f"/v1/freezes/{freeze.json()['id']}/lift")

    def test_disable_repositories_rejects_unknown_repositories(self, acme: Tenant) -> None:
        body = {"repositories": ["acme/nothing"]}
        error = refusal(acme.key().post("/v1/repos/disable", body), 422, "invalid_parameter")
        assert error["details"][0]["path"] == "/repositories/0"

    def test_disable_repositories_works_without_an_installation(self, acme: Tenant) -> None:
        web = acme.repository()
        acme.installation.state = "removed"
        acme.session.flush()
        assert acme.key().post("/v1/repos/disable", {"repositories": [web.id]}).status_code == 200
