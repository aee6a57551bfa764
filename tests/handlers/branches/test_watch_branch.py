"""Watching a branch, changing its settings, and watching it no more."""

from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from models.freezes import FreezeTarget
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import EVERYTHING, Tenant, answered, refusal
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups


class TestWatchBranch:
    def test_watch_branch_watches_and_schedules_the_heads(
        self, acme: Tenant, repository: Repository, wakeups: RecordedWakeups
    ) -> None:
        answer = acme.key("repo:write").post("/v1/repos/acme%2Fweb/branches", {"name": "release/1"})
        assert answer.status_code == 201
        shown = answer.json()
        assert answer.headers["location"].endswith(f"/v1/branches/{shown['id']}")
        assert shown.pop("createdAt").endswith("Z")
        assert shown == {
            "id": shown["id"],
            "repositoryId": repository.id,
            "repository": "acme/web",
            "name": "release/1",
            "frozen": False,
            "freezeIds": [],
            "blocking": None,
            "checkName": "change-freeze/release/1",
            "enforcement": {"light": "amber", "lastVerifiedAt": None},
            "settings": {"exceptionsAllowed": True},
        }
        row = acme.session.get_one(WatchedBranch, shown["id"])
        assert (
            factories.check(acme.session, row).wanted_generation > factories.check(acme.session, row).written_generation
        )
        assert factories.check(acme.session, row).due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["branch.watched"]

    def test_watch_branch_accepts_a_branch_missing_on_github(self, acme: Tenant, repository: Repository) -> None:
        assert acme.key().post(f"/v1/repos/{repository.id}/branches", {"name": "next"}).status_code == 201

    def test_watch_branch_gives_the_branch_a_check_of_its_own(self, acme: Tenant) -> None:
        acme.repository("api", auto_watch=["!hotfix/1", "hotfix/*"])
        shown = acme.key().post("/v1/repos/acme%2Fapi/branches", {"name": "hotfix/2"}).json()
        assert shown["checkName"] == "change-freeze/hotfix/2"
        assert acme.session.get_one(WatchedBranch, shown["id"]).pattern_check_name == "change-freeze/hotfix/*"

    def test_watch_branch_joins_open_freezes_that_cover_the_branch(self, acme: Tenant, repository: Repository) -> None:
        scope = {"type": "organization", "branches": ["release/*"]}
        freeze = factories.freeze(acme.session, acme.organization, scope=scope)
        path = f"/v1/repos/{repository.id}/branches"
        assert acme.key().post(path, {"name": "release/1"}).json()["freezeIds"] == [freeze.id]
        assert acme.key().post(path, {"name": "main"}).json()["freezeIds"] == []
        assert acme.session.query(FreezeTarget).where(FreezeTarget.freeze_id == freeze.id).one().state == "pending"

    def test_watch_branch_is_a_conflict_when_already_watched(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        answer = acme.key().post(f"/v1/repos/{repository.id}/branches", {"name": "main"})
        assert refusal(answer, 409, "already_exists")["details"][0]["path"] == "/name"

    def test_watch_branch_restores_a_formerly_watched_branch(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        acme.key().delete(f"/v1/branches/{web.id}")
        answer = answered(acme.key().post(f"/v1/repos/{repository.id}/branches", {"name": "main"}), 201)
        assert answer["id"] == web.id
        assert answer["checkName"] == web.check_name

    def test_concurrent_watches_of_a_branch_succeed_once(self, acme: Tenant, repository: Repository) -> None:
        key, path = acme.key(), f"/v1/repos/{repository.id}/branches"
        answers = at_once(*[lambda: key.post(path, {"name": "release/1"})] * 8)
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409} == {"already_exists"}

    def test_concurrently_started_freeze_covers_the_watched_branch(
        self, acme: Tenant, repository: Repository, web: WatchedBranch
    ) -> None:
        key, path = acme.key(), f"/v1/repos/{repository.id}/branches"
        for number in range(6):
            body = {"name": f"b{number}"}
            freeze, watched = at_once(
                lambda: key.post("/v1/freezes", EVERYTHING),
                lambda body=body: key.post(path, body),  # type: ignore[misc]
            )
            assert (freeze.status_code, watched.status_code) == (201, 201)
            shown = key.get(f"/v1/branches/{watched.json()['id']}").json()
            assert shown["freezeIds"] == [freeze.json()["id"]]
            key.post(f"/v1/freezes/{freeze.json()['id']}/lift")

    def test_watch_branch_is_refused_when_the_repository_is_not_enabled(self, acme: Tenant) -> None:
        api = acme.repository("api", enabled=False)
        refusal(acme.key().post(f"/v1/repos/{api.id}/branches", {"name": "main"}), 409, "invalid_state")

    def test_watch_branch_beyond_the_plan_is_refused(self, globex: Tenant, session: Session) -> None:
        repository = globex.repository("web")
        for number in range(25):
            factories.branch(session, repository, f"b{number}")
        answer = globex.key().post(f"/v1/repos/{repository.id}/branches", {"name": "main"})
        assert "25" in refusal(answer, 403, "feature_not_available")["message"]

    def test_watch_branch_rejects_an_invalid_branch_name(self, acme: Tenant, repository: Repository) -> None:
        cases: list[Any] = ["", "a b", "a\nb", "a^b", "refs/heads/main", "a..b", "x.lock", "-x", "x" * 256, 7, None]
        for name in cases:
            answer = acme.key().post(f"/v1/repos/{repository.id}/branches", {"name": name})
            assert refusal(answer, 422, "validation_failed")["details"][0]["path"] == "/name"


class TestUpdateBranch:
    def test_update_branch_disables_exceptions_and_rewrites_the_checks(
        self, acme: Tenant, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        body = {"settings": {"exceptionsAllowed": False}}
        shown = acme.key("repo:write").patch(f"/v1/branches/{web.id}", body).json()
        assert shown["settings"] == {"exceptionsAllowed": False}
        acme.session.refresh(web)
        assert factories.check(acme.session, web).wanted_generation > 0
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["branch.updated"]

    def test_update_branch_keeps_omitted_settings(self, acme: Tenant, web: WatchedBranch) -> None:
        web.exceptions_allowed = False
        acme.session.flush()
        shown = acme.key().patch(f"/v1/branches/{web.id}", {"settings": {}}).json()
        assert shown["settings"] == {"exceptionsAllowed": False}


class TestUnwatchBranch:
    def test_unwatch_branch_leaves_no_blocking_check_behind(
        self, acme: Tenant, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        answer = acme.key("repo:write").delete(f"/v1/branches/{web.id}")
        assert (answer.status_code, answer.content) == (204, b"")
        acme.session.refresh(web)
        assert web.unwatched_at is not None
        assert (
            factories.check(acme.session, web).wanted_generation > factories.check(acme.session, web).written_generation
        )
        assert factories.check(acme.session, web).due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["branch.unwatched"]
        refusal(acme.key().get(f"/v1/branches/{web.id}"), 404, "branch_not_found")
        refusal(acme.key().delete(f"/v1/branches/{web.id}"), 404, "branch_not_found")

    def test_unwatch_branch_is_refused_with_the_freeze_while_frozen(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web])
        error = refusal(acme.key().delete(f"/v1/branches/{web.id}"), 409, "already_frozen")
        assert freeze.id in error["message"]
        acme.session.refresh(web)
        assert web.unwatched_at is None
        freeze.ended_at = factories.now()
        acme.session.flush()
        assert acme.key().delete(f"/v1/branches/{web.id}").status_code == 204

    def test_unwatch_branch_is_allowed_after_the_freeze_has_ended(
        self, acme: Tenant, web: WatchedBranch, later: Any
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(minutes=1))
        refusal(acme.key().delete(f"/v1/branches/{web.id}"), 409, "already_frozen")
        later(minutes=2)
        assert acme.key().delete(f"/v1/branches/{web.id}").status_code == 204
