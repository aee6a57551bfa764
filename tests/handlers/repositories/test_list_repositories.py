"""Reading repositories, one or in lists; what globs match; and having them read from GitHub again."""

from datetime import timedelta
from typing import Any

import pytest

from models.installations import RepositorySync
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.people import through_pages
from tests.handlers.repositories.requests import names
from tests.harness.wakeups import RecordedWakeups


class TestListRepositories:
    def test_list_repositories_sorts_by_name_over_its_pages(self, acme: Tenant) -> None:
        for name in ("web", "Api", "docs"):
            acme.repository(name)
        shown = through_pages(acme.key(), "/v1/repos", sort="name")
        assert [row["fullName"] for row in shown] == ["acme/Api", "acme/docs", "acme/web"]

    def test_list_repositories_applies_its_filters(self, acme: Tenant) -> None:
        web, api, docs = acme.repository("web"), acme.repository("api", enabled=False), acme.repository("docs")
        factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, web)])
        docs.archived = True
        acme.session.flush()
        reader = acme.key("repo:read")
        assert names(reader.get("/v1/repos", enabled="false").json()) == [api.full_name]
        assert names(reader.get("/v1/repos", archived="true").json()) == [docs.full_name]
        assert names(reader.get("/v1/repos", frozen="true").json()) == [web.full_name]
        assert set(names(reader.get("/v1/repos", frozen="false").json())) == {api.full_name, docs.full_name}
        assert names(reader.get("/v1/repos", q="ME/W").json()) == [web.full_name]
        assert names(reader.get("/v1/repos", q="a%c").json()) == []

    def test_list_repositories_hides_removed_repositories(self, acme: Tenant) -> None:
        acme.repository("gone", removed_at=factories.now())
        assert acme.key().get("/v1/repos").json()["data"] == []


class TestGetRepository:
    def test_get_repository_shows_every_field(self, acme: Tenant) -> None:
        web = acme.repository("web", auto_watch=["release/*"])
        factories.branch(acme.session, web)
        factories.branch(acme.session, web, "old", unwatched_at=factories.now())
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
            "light": "amber",
            "unknown": True,
            "settings": {"autoWatch": ["release/*"]},
        }

    @pytest.mark.parametrize(
        ("lights", "columns", "shown"),
        [
            (["green", "green"], {}, "green"),
            (["green", "amber"], {}, "amber"),
            (["amber", "red", "green"], {}, "red"),
            ([], {}, None),
            (["green"], {"enabled": False}, None),
        ],
    )
    def test_get_repository_shows_the_worst_light_of_its_watched_branches(
        self, acme: Tenant, lights: list[str], columns: dict[str, bool], shown: str | None
    ) -> None:
        web = acme.repository("web", **columns)
        for light in lights:
            factories.branch_enforcement(
                acme.session, factories.branch(acme.session, web, f"of-{light}-{new_id('wbr')}"), light
            )
        old = factories.branch(acme.session, web, "old", unwatched_at=factories.now())
        factories.branch_enforcement(acme.session, old, "red")
        assert acme.key().get(f"/v1/repos/{web.id}").json()["light"] == shown

    @pytest.mark.parametrize(
        ("lights", "unchecked", "unknown"),
        [(["green"], 1, True), (["amber"], 0, False), (["amber"], 1, False), (["red"], 1, False), ([], 0, False)],
    )
    def test_repository_is_unknown_when_only_the_unchecked_make_it_amber(
        self, acme: Tenant, lights: list[str], unchecked: int, unknown: bool
    ) -> None:
        web = acme.repository("web")
        for light in lights:
            factories.branch_enforcement(acme.session, factories.branch(acme.session, web, light), light)
        for number in range(unchecked):
            factories.branch(acme.session, web, f"unchecked-{number}")
        assert acme.key().get(f"/v1/repos/{web.id}").json()["unknown"] is unknown

    def test_get_repository_finds_owner_and_name_in_any_case(self, acme: Tenant) -> None:
        web = acme.repository("web")
        assert acme.key().get("/v1/repos/ACME%2FWeb").json()["id"] == web.id

    @pytest.mark.parametrize("rest", ["", "/branches"])
    def test_unencoded_slash_of_a_repository_is_explained(self, acme: Tenant, rest: str) -> None:
        error = refusal(acme.key().get(f"/v1/repos/acme/web{rest}"), 404, "not_found")
        assert error["message"].endswith(f"as %2F: /v1/repos/acme%2Fweb{rest}")
        assert "%2F" not in refusal(acme.key().get("/v1/freezes/acme/web"), 404, "not_found")["message"]

    def test_get_repository_finds_a_former_name(self, acme: Tenant) -> None:
        web = acme.repository("web")
        web.name = "website"
        acme.session.flush()
        web.name = "site"
        acme.session.flush()
        for former in ("web", "Website", "site"):
            assert acme.key().get(f"/v1/repos/acme%2F{former}").json()["fullName"] == "acme/site"

    def test_get_repository_prefers_a_present_name_to_a_former_name(self, acme: Tenant) -> None:
        web = acme.repository("web")
        web.name = "old-web"
        acme.session.flush()
        new = factories.repository(acme.session, acme.organization, "acme/web")
        assert acme.key().get("/v1/repos/acme%2Fweb").json()["id"] == new.id

    def test_get_repository_is_not_found_when_removed(self, acme: Tenant) -> None:
        gone = acme.repository("gone", removed_at=factories.now())
        refusal(acme.key().get(f"/v1/repos/{gone.id}"), 404, "repository_not_found")

    def test_repository_is_frozen_until_the_freeze_expires(self, acme: Tenant, later: Any) -> None:
        web = acme.repository()
        ends_at = factories.now() + timedelta(hours=1)
        factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, web)], ends_at=ends_at)
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is True
        later(hours=2)
        assert acme.key().get(f"/v1/repos/{web.id}").json()["frozen"] is False


class TestSyncRepositories:
    def test_sync_repositories_queues_a_sync_and_wakes_the_job(self, acme: Tenant, wakeups: RecordedWakeups) -> None:
        answer = answered(acme.key("repo:write").post("/v1/repos/sync"), 202)
        assert answer["state"] == "queued"
        assert answer["lastSyncedAt"] is None
        assert "sync" in wakeups.sent
        assert acme.audit() == ["repository.sync_requested"]

    def test_sync_repositories_joins_a_queued_sync(self, acme: Tenant, later: Any) -> None:
        first = acme.key().post("/v1/repos/sync").json()
        later(seconds=5)
        assert acme.key().post("/v1/repos/sync").json() == first

    def test_sync_repositories_is_running_until_the_sync_is_done(self, acme: Tenant, later: Any) -> None:
        acme.key().post("/v1/repos/sync")
        sync = acme.session.get_one(RepositorySync, acme.installation.id)
        sync.lease_token, sync.lease_until = "a worker's", sync.requested_at + timedelta(minutes=5)
        acme.session.flush()
        assert acme.key().post("/v1/repos/sync").json()["state"] == "running"
        acme.installation.synced_at = sync.requested_at
        sync.due_at = sync.lease_token = sync.lease_until = None
        acme.session.flush()
        later(seconds=5)
        again = acme.key().post("/v1/repos/sync").json()
        assert again["state"] == "queued"
        assert again["lastSyncedAt"] is not None
        assert again["requestedAt"] > again["lastSyncedAt"]


class TestPreviewGlob:
    def test_preview_glob_decides_by_the_last_matching_pattern(self, acme: Tenant) -> None:
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

    def test_preview_glob_lists_at_most_a_hundred_repositories(self, acme: Tenant) -> None:
        for number in range(101):
            factories.repository(acme.session, acme.organization, f"acme/r{number}")
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
    def test_preview_glob_rejects_an_invalid_pattern(self, acme: Tenant, patterns: list[str], path: str) -> None:
        body = {"patterns": patterns}
        error = refusal(acme.key().post("/v1/repos/preview-glob", body), 422, "invalid_glob")
        assert [row["path"] for row in error["details"]] == [path]
