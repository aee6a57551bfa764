"""Operations of the tag Repositories."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.freezes import FreezeTarget
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import EVERYTHING, Tenant, at_once, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials
from tools.codehost import CodeHost


def names(page: dict[str, Any]) -> list[str]:
    return [row["fullName"] for row in page["data"]]


def rows_of(session: Session, repository: Repository) -> dict[str, WatchedBranch]:
    session.expire_all()
    found = session.query(WatchedBranch).where(WatchedBranch.repository_id == repository.id)
    return {row.name: row for row in found}


class TestListRepositories:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get("/v1/repos"), scope="repo:read", least_role="viewer")

    def test_the_newest_here_come_first(self, acme: Tenant, session: Session) -> None:
        for age, name in enumerate(["new", "middle", "old"]):
            acme.repository(name, created_at=factories.now() - timedelta(days=age))
        assert names(acme.key().get("/v1/repos").json()) == ["acme/new", "acme/middle", "acme/old"]

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant) -> None:
        same = factories.now()
        made = {acme.repository(f"r{number}", created_at=same).full_name for number in range(7)}
        reader, seen, cursor = acme.key(), [], None
        while True:
            page = reader.get("/v1/repos", limit=3, **({"cursor": cursor} if cursor else {})).json()
            seen += names(page)
            cursor = page["nextCursor"]
            if cursor is None:
                break
        assert len(seen) == 7
        assert set(seen) == made

    def test_a_cursor_of_other_filters_is_refused(self, acme: Tenant) -> None:
        for number in range(3):
            acme.repository(f"r{number}")
        cursor = acme.key().get("/v1/repos", limit=1).json()["nextCursor"]
        refusal(acme.key().get("/v1/repos", limit=1, cursor=cursor, enabled="true"), 400, "invalid_cursor")

    def test_filters_narrow_the_list(self, acme: Tenant, session: Session) -> None:
        web, api, docs = acme.repository("web"), acme.repository("api", enabled=False), acme.repository("docs")
        factories.freeze(session, acme.organization, [factories.branch(session, web)])
        docs.archived = True
        session.flush()
        reader = acme.key("repo:read")
        assert names(reader.get("/v1/repos", enabled="false").json()) == [api.full_name]
        assert names(reader.get("/v1/repos", archived="true").json()) == [docs.full_name]
        assert names(reader.get("/v1/repos", frozen="true").json()) == [web.full_name]
        assert set(names(reader.get("/v1/repos", frozen="false").json())) == {api.full_name, docs.full_name}
        assert names(reader.get("/v1/repos", q="ME/W").json()) == [web.full_name]
        assert names(reader.get("/v1/repos", q="a%c").json()) == []

    def test_what_the_installation_no_longer_covers_is_hidden(self, acme: Tenant) -> None:
        acme.repository("gone", removed_at=factories.now())
        assert acme.key().get("/v1/repos").json()["data"] == []

    def test_another_organisations_repositories_are_not_listed(self, acme: Tenant, globex: Tenant) -> None:
        globex.repository("secret")
        assert acme.key().get("/v1/repos").json()["data"] == []


class TestGetRepository:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant) -> None:
        path = f"/v1/repos/{acme.repository().id}"
        takes_credentials(acme, lambda caller: caller.get(path), scope="repo:read", least_role="viewer")

    def test_every_field_is_told(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web", auto_watch=["release/*"])
        factories.branch(session, web)
        factories.branch(session, web, "old", unwatched_at=factories.now())
        shown = acme.key().get(f"/v1/repos/{web.id}").json()
        assert shown.pop("syncedAt").endswith("Z")
        assert shown == {
            "id": web.id,
            "fullName": "acme/web",
            "owner": "acme",
            "name": "web",
            "defaultBranch": "main",
            "private": True,
            "archived": False,
            "enabled": True,
            "frozen": False,
            "watchedBranchCount": 1,
            "settings": {"autoWatch": ["release/*"]},
        }

    def test_owner_and_name_find_it_in_any_case(self, acme: Tenant) -> None:
        web = acme.repository("web")
        assert acme.key().get("/v1/repos/ACME%2FWeb").json()["id"] == web.id

    def test_a_former_name_still_finds_it(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web")
        web.name = "website"
        session.flush()
        web.name = "site"
        session.flush()
        for former in ("web", "Website", "site"):
            assert acme.key().get(f"/v1/repos/acme%2F{former}").json()["fullName"] == "acme/site"

    def test_a_present_name_goes_before_a_former_one(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web")
        web.name = "old-web"
        session.flush()
        new = factories.repository(session, acme.organization, "acme/web")
        assert acme.key().get("/v1/repos/acme%2Fweb").json()["id"] == new.id

    @pytest.mark.parametrize(
        "reference", ["rep_00000000000000000000000000", "nowhere", "acme%2Fnothing", "wbr_00000000000000000000000000"]
    )
    def test_an_unknown_one_is_not_found(self, acme: Tenant, reference: str) -> None:
        refusal(acme.key().get(f"/v1/repos/{reference}"), 404, "repository_not_found")

    def test_another_organisations_is_not_found_by_id_or_name(self, acme: Tenant, globex: Tenant) -> None:
        secret = globex.repository("secret")
        for reference in (secret.id, "globex%2Fsecret"):
            refusal(acme.key().get(f"/v1/repos/{reference}"), 404, "repository_not_found")

    def test_one_that_is_no_longer_covered_is_not_found(self, acme: Tenant) -> None:
        gone = acme.repository("gone", removed_at=factories.now())
        refusal(acme.key().get(f"/v1/repos/{gone.id}"), 404, "repository_not_found")

    def test_frozen_follows_the_clock(self, acme: Tenant, session: Session, later: Any) -> None:
        web = acme.repository()
        ends_at = factories.now() + timedelta(hours=1)
        factories.freeze(session, acme.organization, [factories.branch(session, web)], ends_at=ends_at)
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is True
        later(hours=2)
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is False


class TestSyncRepositories:
    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant) -> None:
        takes_credentials(
            acme, lambda caller: caller.post("/v1/repos/sync"), scope="repo:write", least_role="member", writes=True
        )

    def test_it_queues_a_sync_and_wakes_the_job(self, acme: Tenant, wakeups: RecordedWakeups, session: Session) -> None:
        answer = acme.key("repo:write").post("/v1/repos/sync")
        assert answer.status_code == 202
        assert answer.json()["state"] == "queued"
        assert answer.json()["lastSyncedAt"] is None
        assert "sync" in wakeups.sent
        assert acme.audit() == ["repository.sync_requested"]

    def test_a_second_call_joins_the_first(self, acme: Tenant, later: Any) -> None:
        first = acme.key().post("/v1/repos/sync").json()
        later(seconds=5)
        assert acme.key().post("/v1/repos/sync").json() == first

    def test_a_begun_one_is_running_until_it_is_done(self, acme: Tenant, session: Session, later: Any) -> None:
        acme.key().post("/v1/repos/sync")
        session.refresh(acme.installation)
        acme.installation.sync_started_at = acme.installation.sync_requested_at
        session.flush()
        assert acme.key().post("/v1/repos/sync").json()["state"] == "running"
        acme.installation.synced_at = acme.installation.sync_started_at
        session.flush()
        later(seconds=5)
        again = acme.key().post("/v1/repos/sync").json()
        assert again["state"] == "queued"
        assert again["lastSyncedAt"] is not None
        assert again["requestedAt"] > again["lastSyncedAt"]

    @pytest.mark.parametrize("state", ["removed", "suspended"])
    def test_without_an_active_installation_it_is_gone(self, acme: Tenant, session: Session, state: str) -> None:
        acme.installation.state = state
        session.flush()
        refusal(acme.key().post("/v1/repos/sync"), 410, "installation_removed")


class TestEnableRepositories:
    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant) -> None:
        body = {"repositories": [acme.repository().id]}
        takes_credentials(
            acme,
            lambda caller: caller.post("/v1/repos/enable", body),
            scope="repo:write",
            least_role="member",
            writes=True,
        )

    def test_the_default_branch_is_watched_and_judged(
        self, acme: Tenant, session: Session, wakeups: RecordedWakeups
    ) -> None:
        web = acme.repository("web", enabled=False, default_branch="trunk")
        answer = acme.key("repo:write").post("/v1/repos/enable", {"repositories": ["Acme/WEB"]})
        assert answer.status_code == 200
        assert [(row["id"], row["enabled"], row["watchedBranchCount"]) for row in answer.json()["data"]] == [
            (web.id, True, 1)
        ]
        branch = rows_of(session, web)["trunk"]
        assert branch.check_name == "change-freeze/trunk"
        assert branch.wanted_generation > branch.written_generation
        assert branch.due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["repository.enabled"]

    def test_branches_that_the_globs_match_are_watched_under_the_patterns_name(
        self, acme: Tenant, session: Session
    ) -> None:
        globs = ["release/*", "!release/old"]
        web = acme.repository("web", "release/1", "release/old", "other", enabled=False, auto_watch=globs)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        watched = {name: row.check_name for name, row in rows_of(session, web).items()}
        assert watched == {"main": "change-freeze/main", "release/1": "change-freeze/release/*"}

    def test_a_code_host_that_is_down_delays_only_the_matching(
        self, acme: Tenant, session: Session, code_host: CodeHost, wakeups: RecordedWakeups
    ) -> None:
        web = acme.repository("web", "release/1", enabled=False, auto_watch=["release/*"])
        code_host.world.installations.pop(acme.installation.id)
        assert acme.key().post("/v1/repos/enable", {"repositories": [web.id]}).status_code == 200
        assert set(rows_of(session, web)) == {"main"}
        assert "sync" in wakeups.sent

    def test_the_answer_is_in_the_order_of_the_list(self, acme: Tenant) -> None:
        for name in ("a", "b", "c"):
            acme.repository(name, enabled=False)
        answer = acme.key().post("/v1/repos/enable", {"repositories": ["acme/c", "acme/a", "acme/b", "acme/a"]})
        assert names(answer.json()) == ["acme/c", "acme/a", "acme/b"]

    def test_one_that_is_enabled_already_stays_as_it_is(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web")
        assert acme.key().post("/v1/repos/enable", {"repositories": [web.id]}).json()["data"][0]["enabled"] is True
        assert rows_of(session, web) == {}

    def test_unknown_ones_are_pointed_at_and_nothing_is_enabled(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        web, secret = acme.repository("web", enabled=False), globex.repository("secret")
        body = {"repositories": [web.id, "acme/nothing", secret.id, "nonsense"]}
        error = refusal(acme.key().post("/v1/repos/enable", body), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == [
            "/repositories/1",
            "/repositories/2",
            "/repositories/3",
        ]
        session.refresh(web)
        assert web.enabled is False
        assert rows_of(session, web) == {}

    @pytest.mark.parametrize("scope", [{"type": "organization"}, {"type": "glob", "patterns": ["*/w*"]}])
    def test_an_open_ended_freeze_in_force_takes_the_branch_in(
        self, acme: Tenant, session: Session, scope: dict[str, Any]
    ) -> None:
        freeze = factories.freeze(session, acme.organization, scope=scope)
        web, api = acme.repository("web", enabled=False), acme.repository("api", enabled=False)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        covered = {row.branch_id for row in session.query(FreezeTarget).where(FreezeTarget.freeze_id == freeze.id)}
        assert covered == {rows_of(session, web)["main"].id}
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is True
        assert acme.key().get(f"/v1/repos/{api.id}").json()["frozen"] is False

    def test_a_freeze_of_other_repositories_does_not(self, acme: Tenant, session: Session) -> None:
        factories.freeze(session, acme.organization, scope={"type": "glob", "patterns": ["acme/api"]})
        factories.freeze(session, acme.organization, ended_at=factories.now())
        web = acme.repository("web", enabled=False)
        acme.key().post("/v1/repos/enable", {"repositories": [web.id]})
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is False

    def test_more_branches_than_the_plan_has_are_refused_and_nothing_changes(
        self, globex: Tenant, session: Session
    ) -> None:
        web = globex.repository("web")
        for number in range(25):
            factories.branch(session, web, f"b{number}")
        api = globex.repository("api", enabled=False)
        error = refusal(globex.key().post("/v1/repos/enable", {"repositories": [api.id]}), 403, "feature_not_available")
        assert "25" in error["message"]
        session.refresh(api)
        assert api.enabled is False
        assert rows_of(session, api) == {}

    def test_branches_of_disabled_repositories_do_not_count_until_they_are_enabled(
        self, globex: Tenant, session: Session
    ) -> None:
        web = globex.repository("web", enabled=False)
        for number in range(26):
            factories.branch(session, web, f"b{number}")
        api = globex.repository("api", enabled=False)
        assert globex.key().post("/v1/repos/enable", {"repositories": [api.id]}).status_code == 200
        refusal(globex.key().post("/v1/repos/enable", {"repositories": [web.id]}), 403, "feature_not_available")

    def test_without_an_active_installation_it_is_gone(self, acme: Tenant, session: Session) -> None:
        web = acme.repository(enabled=False)
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.key().post("/v1/repos/enable", {"repositories": [web.id]}), 410, "installation_removed")

    def test_an_empty_list_does_not_match_the_schema(self, acme: Tenant) -> None:
        refusal(acme.key().post("/v1/repos/enable", {"repositories": []}), 422, "validation_failed")


class TestDisableRepositories:
    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant) -> None:
        body = {"repositories": [acme.repository().id]}
        takes_credentials(
            acme,
            lambda caller: caller.post("/v1/repos/disable", body),
            scope="repo:write",
            least_role="member",
            writes=True,
        )

    def test_its_branches_go_on_being_judged(self, acme: Tenant, session: Session, wakeups: RecordedWakeups) -> None:
        web = acme.repository("web")
        branch = factories.branch(session, web)
        answer = acme.key("repo:write").post("/v1/repos/disable", {"repositories": [web.id]})
        assert answer.json()["data"][0]["enabled"] is False
        assert answer.json()["data"][0]["watchedBranchCount"] == 1
        session.refresh(branch)
        assert branch.unwatched_at is None
        assert branch.wanted_generation > branch.written_generation
        assert branch.due_at is not None
        assert "reconcile" in wakeups.sent
        assert acme.audit() == ["repository.disabled"]

    def test_a_frozen_branch_in_any_of_them_refuses_them_all(self, acme: Tenant, session: Session) -> None:
        web, api = acme.repository("web"), acme.repository("api")
        factories.branch(session, api)
        freeze = factories.freeze(session, acme.organization, [factories.branch(session, web, "release/1")])
        body = {"repositories": ["acme/api", "acme/web"]}
        error = refusal(acme.key().post("/v1/repos/disable", body), 409, "already_frozen")
        assert "acme/web: release/1 is frozen" in error["message"]
        assert [detail["path"] for detail in error["details"]] == ["/repositories/1"]
        for row in (web, api):
            session.refresh(row)
            assert row.enabled is True
        freeze.ended_at = factories.now()
        session.flush()
        assert acme.key().post("/v1/repos/disable", body).status_code == 200

    def test_a_freeze_that_starts_at_the_same_moment_covers_it_or_finds_it_disabled(
        self, acme: Tenant, session: Session
    ) -> None:
        key, api = acme.key(), factories.branch(session, acme.repository("api"))
        assert api.unwatched_at is None
        for number in range(6):
            web = acme.repository(f"r{number}")
            branch = factories.branch(session, web)
            freeze, disabled = at_once(
                lambda: key.post("/v1/freezes", EVERYTHING),
                lambda web=web: key.post("/v1/repos/disable", {"repositories": [web.id]}),  # type: ignore[misc]
            )
            frozen = key.get(f"/v1/branches/{branch.id}").json()["frozen"]
            assert (disabled.status_code, frozen) in {(200, False), (409, True)}
            key.post(f"/v1/freezes/{freeze.json()['id']}/lift")

    def test_unknown_ones_are_pointed_at(self, acme: Tenant) -> None:
        body = {"repositories": ["acme/nothing"]}
        error = refusal(acme.key().post("/v1/repos/disable", body), 422, "invalid_parameter")
        assert error["details"][0]["path"] == "/repositories/0"

    def test_it_works_without_an_installation(self, acme: Tenant, session: Session) -> None:
        web = acme.repository()
        acme.installation.state = "removed"
        session.flush()
        assert acme.key().post("/v1/repos/disable", {"repositories": [web.id]}).status_code == 200


class TestPreviewGlob:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant) -> None:
        body = {"patterns": ["*/*"]}
        takes_credentials(
            acme, lambda caller: caller.post("/v1/repos/preview-glob", body), scope="repo:read", least_role="viewer"
        )

    def test_the_last_pattern_that_matches_decides(self, acme: Tenant) -> None:
        rows = {name: acme.repository(name, enabled=name != "api") for name in ("web", "docs", "api")}
        shown = acme.key().post("/v1/repos/preview-glob", {"patterns": ["ACME/*", "!acme/docs"]}).json()
        assert shown == {
            "repositoryCount": 2,
            "repositories": [
                {"id": rows["api"].id, "fullName": "acme/api", "enabled": False},
                {"id": rows["web"].id, "fullName": "acme/web", "enabled": True},
            ],
            "truncated": False,
        }

    def test_at_most_a_hundred_are_listed(self, acme: Tenant, session: Session) -> None:
        for number in range(101):
            factories.repository(session, acme.organization, f"acme/r{number}")
        shown = acme.key().post("/v1/repos/preview-glob", {"patterns": ["**"]})
        assert shown.json()["repositoryCount"] == 101
        assert len(shown.json()["repositories"]) == 100
        assert shown.json()["truncated"] is True

    @pytest.mark.parametrize(
        ("patterns", "path"),
        [
            (["acme/*", "acme/[web]"], "/patterns/1"),
            (["!acme/docs"], "/patterns"),
            (["acme/***"], "/patterns/0"),
            (["acme"], "/patterns/0"),
        ],
        ids=["a character class", "only exclusions", "three asterisks", "no slash"],
    )
    def test_a_bad_pattern_is_pointed_at(self, acme: Tenant, patterns: list[str], path: str) -> None:
        body = {"patterns": patterns}
        error = refusal(acme.key().post("/v1/repos/preview-glob", body), 422, "invalid_glob")
        assert [row["path"] for row in error["details"]] == [path]


class TestUpdateRepository:
    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant) -> None:
        path = f"/v1/repos/{acme.repository().id}"
        body: dict[str, Any] = {"settings": {"autoWatch": []}}
        takes_credentials(
            acme, lambda caller: caller.patch(path, body), scope="repo:write", least_role="member", writes=True
        )

    def test_new_globs_watch_what_they_match(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web", "release/1", "release/2", "other")
        body = {"settings": {"autoWatch": ["release/*"]}}
        shown = acme.key().patch(f"/v1/repos/{web.id}", body).json()
        assert shown["settings"] == {"autoWatch": ["release/*"]}
        assert set(rows_of(session, web)) == {"release/1", "release/2"}
        assert acme.audit() == ["repository.updated"]

    def test_a_freeze_in_force_takes_in_what_begins_to_be_watched(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web", "release/1")
        factories.freeze(session, acme.organization)
        shown = acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}}).json()
        assert shown["frozen"] is True

    def test_no_branch_stops_being_watched_and_check_names_stay(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web", "release/1", auto_watch=["release/*"])
        branch = factories.branch(session, web, "release/1")
        factories.freeze(session, acme.organization, [branch])
        for globs in ([], ["**"]):
            acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": globs}})
            row = rows_of(session, web)["release/1"]
            assert (row.id, row.unwatched_at, row.check_name) == (branch.id, None, "change-freeze/release/*")
            assert acme.key().get(f"/v1/branches/{branch.id}").json()["frozen"] is True

    def test_in_a_disabled_repository_nothing_is_watched(self, acme: Tenant, session: Session) -> None:
        web = acme.repository("web", "release/1", enabled=False)
        acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}})
        assert rows_of(session, web) == {}

    def test_settings_that_are_not_named_stay(self, acme: Tenant) -> None:
        web = acme.repository("web", auto_watch=["release/*"])
        shown = acme.key().patch(f"/v1/repos/{web.id}", {"settings": {}}).json()
        assert shown["settings"] == {"autoWatch": ["release/*"]}

    @pytest.mark.parametrize(
        ("globs", "path"),
        [
            (["release/*", "a b"], "/settings/autoWatch/1"),
            (["!main"], "/settings/autoWatch"),
            (["r***"], "/settings/autoWatch/0"),
            (["main", "a**b**c**d**e**f**g**h"], "/settings/autoWatch/1"),
        ],
        ids=["a space", "only exclusions", "three asterisks", "what no rule can say"],
    )
    def test_a_bad_glob_is_pointed_at(self, acme: Tenant, globs: list[str], path: str) -> None:
        web = acme.repository()
        body = {"settings": {"autoWatch": globs}}
        error = refusal(acme.key().patch(f"/v1/repos/{web.id}", body), 422, "invalid_glob")
        assert [row["path"] for row in error["details"]] == [path]

    def test_more_matches_than_the_plan_has_are_refused(self, globex: Tenant, session: Session) -> None:
        web = globex.repository("web", *(f"release/{number}" for number in range(26)))
        body = {"settings": {"autoWatch": ["release/*"]}}
        refusal(globex.key().patch(f"/v1/repos/{web.id}", body), 403, "feature_not_available")
        session.refresh(web)
        assert web.auto_watch == []
        assert rows_of(session, web) == {}

    def test_without_an_installation_the_settings_are_kept_all_the_same(self, acme: Tenant, session: Session) -> None:
        web = acme.repository()
        acme.installation.state = "removed"
        session.flush()
        answer = acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}})
        assert answer.json()["settings"] == {"autoWatch": ["release/*"]}

    def test_an_unknown_one_is_not_found(self, acme: Tenant, globex: Tenant) -> None:
        for reference in ("acme%2Fnothing", globex.repository("secret").id):
            answer = acme.key().patch(f"/v1/repos/{reference}", {"settings": {}})
            refusal(answer, 404, "repository_not_found")


@pytest.fixture
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return `main` of the one enabled repository."""
    return factories.branch(session, acme.repository("web"))


class TestListPullRequests:
    def test_it_takes_a_key_that_reads_freezes_or_any_member(self, acme: Tenant) -> None:
        path = f"/v1/repos/{acme.repository().id}/pulls"
        takes_credentials(acme, lambda caller: caller.get(path), scope="freeze:read", least_role="viewer")

    def numbers(self, acme: Tenant, **filters: Any) -> list[int]:
        page = acme.key("freeze:read").get("/v1/repos/acme%2Fweb/pulls", **filters).json()
        return [row["number"] for row in page["data"]]

    def test_the_highest_number_comes_first_page_by_page(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        for number in (3, 1, 5, 2, 4):
            factories.pull_request(session, repository, number)
        reader, path = acme.key(), "/v1/repos/acme%2Fweb/pulls"
        first = reader.get(path, limit=2).json()
        second = reader.get(path, limit=2, cursor=first["nextCursor"]).json()
        third = reader.get(path, limit=2, cursor=second["nextCursor"]).json()
        assert [[row["number"] for row in page["data"]] for page in (first, second, third)] == [[5, 4], [3, 2], [1]]
        assert third["nextCursor"] is None
        refusal(reader.get(path, limit=2, cursor=first["nextCursor"], state="open"), 400, "invalid_cursor")

    def test_only_those_into_watched_branches_are_tracked(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        factories.branch(session, repository, "old", unwatched_at=factories.now())
        factories.pull_request(session, repository, 1)
        factories.pull_request(session, repository, 2, base_branch="old")
        factories.pull_request(session, repository, 3, base_branch="feature")
        assert self.numbers(acme) == [1]

    def test_filters_narrow_the_list(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        release = factories.branch(session, repository, "release/1")
        factories.freeze(session, acme.organization, [release])
        factories.pull_request(session, repository, 1)
        factories.pull_request(session, repository, 2, state="closed")
        factories.pull_request(session, repository, 3, base_branch="release/1")
        assert self.numbers(acme, state="open") == [3, 1]
        assert self.numbers(acme, state="closed") == [2]
        assert self.numbers(acme, base="release/1") == [3]
        assert self.numbers(acme, verdict="blocked") == [3]
        assert self.numbers(acme, verdict="allowed") == [2, 1]

    def test_pages_of_one_verdict_skip_the_others(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        factories.freeze(session, acme.organization, [factories.branch(session, repository, "release/1")])
        for number in range(1, 11):
            base = "release/1" if number % 3 == 0 else "main"
            factories.pull_request(session, repository, number, base_branch=base)
        reader, path = acme.key(), "/v1/repos/acme%2Fweb/pulls"
        first = reader.get(path, limit=2, verdict="blocked").json()
        second = reader.get(path, limit=2, verdict="blocked", cursor=first["nextCursor"]).json()
        assert [row["number"] for row in first["data"] + second["data"]] == [9, 6, 3]
        assert second["nextCursor"] is None

    def test_an_unknown_repository_is_not_found(self, acme: Tenant) -> None:
        refusal(acme.key().get("/v1/repos/acme%2Fnothing/pulls"), 404, "repository_not_found")


class TestLookupPullRequest:
    def look_up(self, acme: Tenant, ref: str, **params: Any) -> dict[str, Any]:
        answer = acme.key("freeze:read").get("/v1/pulls/lookup", ref=ref, **params)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    def test_it_takes_a_key_that_reads_freezes_or_any_member(self, acme: Tenant) -> None:
        takes_credentials(
            acme, lambda caller: caller.get("/v1/pulls/lookup", ref="7"), scope="freeze:read", least_role="viewer"
        )

    @pytest.mark.parametrize(
        "ref", ["acme/web#7", "ACME/Web#7", "7", "#7", "https://github.com/acme/web/pull/7/files?w=1#diff"]
    )
    def test_every_form_leads_to_it(self, acme: Tenant, session: Session, web: WatchedBranch, ref: str) -> None:
        pull = factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
        assert self.look_up(acme, ref)["id"] == pull.id

    def test_every_field_is_told(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        pull = factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
        freeze = factories.freeze(session, acme.organization, [web])
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
            "nextChangeAt": None,
            "freezeIds": [freeze.id],
            "exceptionIds": [],
            "exceptions": [],
            "sharedHeadWith": [],
        }

    def test_a_check_is_written_once_it_shows_the_verdict(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        pull = factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
        factories.head_check(session, web, pull.head_sha, "success")
        assert self.look_up(acme, "7")["check"]["state"] == "written"
        factories.freeze(session, acme.organization, [web])
        shown = self.look_up(acme, "7")
        assert (shown["verdict"], shown["check"]["state"]) == ("blocked", "pending")
        assert shown["check"]["writtenAt"] is not None

    @pytest.mark.parametrize(
        ("code", "state"), [("github_permission_denied", "failed"), ("github_rate_limited", "pending")]
    )
    def test_a_check_that_cannot_be_written_has_failed(
        self, acme: Tenant, session: Session, web: WatchedBranch, code: str, state: str
    ) -> None:
        factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
        web.attempts, web.last_error_code = 1, code
        session.flush()
        assert self.look_up(acme, "7")["check"]["state"] == state

    def test_a_head_shared_under_one_name_is_blocked_by_either_base(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        shared = {"check_name": "change-freeze/release/*"}
        first = factories.branch(session, repository, "release/1", **shared)
        second = factories.branch(session, repository, "release/2", **shared)
        head = factories.sha("shared")
        factories.pull_request(session, repository, 1, base_branch=first.name, head_sha=head)
        factories.pull_request(session, repository, 2, base_branch=second.name, head_sha=head)
        factories.pull_request(session, repository, 3, head_sha=head)
        factories.freeze(session, acme.organization, [second])
        shown = {number: self.look_up(acme, str(number)) for number in (1, 2, 3)}
        assert {number: row["verdict"] for number, row in shown.items()} == {1: "blocked", 2: "blocked", 3: "allowed"}
        assert shown[1]["freezeIds"] == []
        assert [other["number"] for other in shown[1]["sharedHeadWith"]] == [2, 3]

    def test_a_closed_sibling_has_no_say(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        other = factories.branch(session, repository, "release/1", check_name=web.check_name)
        head = factories.sha("shared")
        factories.pull_request(session, repository, 1, head_sha=head)
        factories.pull_request(session, repository, 2, base_branch=other.name, head_sha=head, state="closed")
        factories.freeze(session, acme.organization, [other])
        assert self.look_up(acme, "1")["verdict"] == "allowed"

    def test_a_bare_number_needs_its_repository_once_two_are_enabled(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        pull = factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
        acme.repository("api")
        error = refusal(acme.key().get("/v1/pulls/lookup", ref="7"), 400, "missing_parameter")
        assert [detail["code"] for detail in error["details"]] == ["missing_parameter"]
        assert error["details"][0]["path"] == "repo"
        assert self.look_up(acme, "7", repo="acme/web")["id"] == pull.id
        assert self.look_up(acme, "7", repo=web.repository_id)["id"] == pull.id
        assert self.look_up(acme, "acme/web#7", repo=web.repository_id)["id"] == pull.id

    def test_a_reference_of_another_repository_than_repo_is_refused(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        acme.repository("api")
        answer = acme.key().get("/v1/pulls/lookup", ref="acme/web#7", repo="acme/api")
        assert refusal(answer, 400, "invalid_parameter")["details"][0]["path"] == "repo"

    @pytest.mark.parametrize("ref", ["nonsense", "0", "acme/web#0", "acme/web", "https://github.com/acme/web/issues/7"])
    def test_no_known_form_is_refused(self, acme: Tenant, web: WatchedBranch, ref: str) -> None:
        answer = acme.key().get("/v1/pulls/lookup", ref=ref)
        assert refusal(answer, 400, "invalid_parameter")["details"][0]["path"] == "ref"

    def test_a_reference_is_needed(self, acme: Tenant) -> None:
        refusal(acme.key().get("/v1/pulls/lookup"), 400, "missing_parameter")

    def test_what_is_not_tracked_is_not_found(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        factories.pull_request(session, repository, 7, base_branch="unwatched")
        for ref in ("7", "8", "2147483647"):
            refusal(acme.key().get("/v1/pulls/lookup", ref=ref), 404, "pull_request_not_found")
        refusal(acme.key().get("/v1/pulls/lookup", ref="acme/nothing#7"), 404, "repository_not_found")

    def test_in_a_disabled_repository_nothing_is_found(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        factories.pull_request(session, repository, 7)
        repository.enabled = False
        session.flush()
        refusal(acme.key().get("/v1/pulls/lookup", ref="acme/web#7"), 404, "pull_request_not_found")

    def test_another_organisations_is_not_found(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        secret = globex.repository("secret")
        factories.branch(session, secret)
        factories.pull_request(session, secret, 7)
        refusal(acme.key().get("/v1/pulls/lookup", ref="globex/secret#7"), 404, "repository_not_found")
