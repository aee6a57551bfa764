"""The settings of a repository: globs of branches that are watched automatically."""

import pytest
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.repositories.requests import rows_of


class TestUpdateRepository:
    def test_update_repository_watches_branches_of_new_globs(self, acme: Tenant) -> None:
        web = acme.repository("web", "release/1", "release/2", "other")
        body = {"settings": {"autoWatch": ["release/*"]}}
        shown = acme.key().patch(f"/v1/repos/{web.id}", body).json()
        assert shown["settings"] == {"autoWatch": ["release/*"]}
        assert set(rows_of(acme.session, web)) == {"release/1", "release/2"}
        assert acme.audit() == ["repository.updated"]

    def test_update_repository_adds_newly_watched_branches_to_open_freezes(self, acme: Tenant) -> None:
        web = acme.repository("web", "release/1")
        factories.freeze(acme.session, acme.organization)
        shown = acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}}).json()
        assert shown["frozen"] is True

    def test_update_repository_keeps_watched_branches_and_check_names(self, acme: Tenant) -> None:
        web = acme.repository("web", "release/1", auto_watch=["release/*"])
        branch = factories.branch(acme.session, web, "release/1")
        factories.freeze(acme.session, acme.organization, [branch])
        for globs in ([], ["**"]):
            acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": globs}})
            row = rows_of(acme.session, web)["release/1"]
            assert (row.id, row.unwatched_at) == (branch.id, None)
            assert row.check_names == ("change-freeze/release/1", "change-freeze/release/*")
            assert acme.key().get(f"/v1/branches/{branch.id}").json()["frozen"] is True

    def test_update_repository_watches_nothing_in_a_disabled_repository(self, acme: Tenant) -> None:
        web = acme.repository("web", "release/1", enabled=False)
        acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}})
        assert rows_of(acme.session, web) == {}

    def test_update_repository_keeps_omitted_settings(self, acme: Tenant) -> None:
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
    def test_update_repository_rejects_an_invalid_glob(self, acme: Tenant, globs: list[str], path: str) -> None:
        web = acme.repository()
        body = {"settings": {"autoWatch": globs}}
        error = refusal(acme.key().patch(f"/v1/repos/{web.id}", body), 422, "invalid_glob")
        assert [row["path"] for row in error["details"]] == [path]

    def test_update_repository_beyond_the_plan_is_refused(self, globex: Tenant, session: Session) -> None:
        web = globex.repository("web", *(f"release/{number}" for number in range(26)))
        body = {"settings": {"autoWatch": ["release/*"]}}
        refusal(globex.key().patch(f"/v1/repos/{web.id}", body), 403, "feature_not_available")
        session.refresh(web)
        assert web.auto_watch == []
        assert rows_of(session, web) == {}

    def test_update_repository_saves_settings_without_an_installation(self, acme: Tenant) -> None:
        web = acme.repository()
        acme.installation.state = "removed"
        acme.session.flush()
        answer = acme.key().patch(f"/v1/repos/{web.id}", {"settings": {"autoWatch": ["release/*"]}})
        assert answer.json()["settings"] == {"autoWatch": ["release/*"]}
