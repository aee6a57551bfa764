"""The settings of a repository: globs of branches that are watched without being asked for."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.guards import takes_credentials
from tests.handlers.repositories.asking import rows_of


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
