"""Pages of repositories and branches: what is watched, the enforcement doctor, and the setup of rules."""

from typing import Any

import pytest
from sqlalchemy import text

from models.repositories import Repository
from rules.contract_names import snake_case
from rules.errors import Detail, ServiceError
from schemas.contract import load_contract
from services.enforcement import setup_plans, snippets
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from web.dashboard.repositories.setup import diff_lines

_MAY = '{"administration": "write"}'
"""The permission to write rules, as JSON."""


def add_services(acme: Scene, count: int) -> None:
    """Add so many repositories that are not enabled; to add them one by one would take seconds."""
    acme.session.execute(
        text(
            "INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, "
            "default_branch, private, created_at, synced_at) "
            "SELECT 'rep_' || lpad(n::text, 26, '0'), organization_id, installation_id, github_id + 1000000 + n, "
            "node_id || '_' || n, owner, 'service-' || lpad(n::text, 4, '0'), "
            "default_branch, private, created_at, synced_at "
            "FROM repositories, generate_series(1, :count) n WHERE id = :like"
        ),
        {"count": count, "like": acme.repositories[0].id},
    )


class TestRepositories:
    def test_repositories_show_state_and_light(self, member: Enter, acme: Scene) -> None:
        factories.freeze(acme.session, acme.organization, [acme.web])
        factories.branch_enforcement(acme.session, factories.branch(acme.session, acme.repositories[1], "old"), "red")
        page = member("viewer").open("/repositories")
        assert "acme/web private Frozen 1 Blocks" in words(page)
        assert "acme/api private Enabled 2 Does not block" in words(page)
        assert "1 does not block 2 block" in words(page)
        assert "Enabling repositories needs the role member." in words(page)

    def test_repositories_tell_gaps_from_what_is_not_checked(self, member: Enter, acme: Scene) -> None:
        for name, light in (("gaps", "amber"), ("unchecked", None)):
            branch = factories.branch(
                acme.session, factories.repository(acme.session, acme.organization, f"acme/{name}")
            )
            if light:
                factories.branch_enforcement(acme.session, branch, light)
        shown = words(member("viewer").open("/repositories"))
        assert "acme/gaps private Enabled 1 Has gaps" in shown
        assert "acme/unchecked private Enabled 1 Not checked yet" in shown

    def test_repository_without_watched_branches_says_how_to_get_one(self, member: Enter, acme: Scene) -> None:
        enabled = factories.repository(acme.session, acme.organization, "acme/enabled")
        disabled = factories.repository(acme.session, acme.organization, "acme/disabled", enabled=False)
        admin = member("admin")
        assert "No branch is watched. Watch a branch:" in words(admin.open(f"/repositories/{enabled.id}"))
        assert "No branch is watched. Enable the repository:" in words(admin.open(f"/repositories/{disabled.id}"))

    def test_repositories_are_disabled_together_unless_frozen(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/repositories"), "Disable the chosen ones", repository=acme.repositories[1].id)
        assert "The repositories are disabled." in page.text
        assert "acme/api private Not enabled" in words(page)
        factories.freeze(acme.session, acme.organization, [acme.web])
        refused = admin.press(page, "Disable the chosen ones", repository=acme.repositories[0].id)
        assert refused.status == 409
        assert "There is a problem" in refused.text

    def test_repositories_are_sorted_by_name_and_enabled_all_at_once(self, member: Enter, acme: Scene) -> None:
        for name in ("zeta", "beta", "alpha"):
            factories.repository(acme.session, acme.organization, f"acme/{name}", enabled=False)
        factories.repository(acme.session, acme.organization, "acme/old", enabled=False, archived=True)
        admin = member("admin")
        page = admin.open("/repositories")
        names = ("alpha", "api", "beta", "old", "web", "zeta")
        assert [text for text in page.links if text.startswith("acme/")] == [f"acme/{name}" for name in names]
        assert "3 repositories are not enabled." in words(page)
        page = admin.press(page, "Enable all 3")
        assert "The repositories are enabled" in page.text
        assert "Enable all" not in page.text

    def test_any_number_of_repositories_is_enabled_batch_by_batch(self, member: Enter, acme: Scene) -> None:
        add_services(acme, 1001)
        admin = member("admin")
        page = admin.open("/repositories")
        assert "1,000 or more repositories are not enabled." in words(page)
        page = admin.press(page, "Enable all")
        for done in ("500", "1,000"):
            assert f"{done} repositories are enabled so far; more follow." in words(page)
            page = admin.press(page, "Go on")
        assert "The repositories are enabled" in page.text
        assert "Enable all" not in page.text
        acme.session.expire_all()
        assert acme.session.query(Repository).filter_by(enabled=False).count() == 0

    def test_pattern_is_looked_for_in_all_repositories(self, member: Enter, acme: Scene) -> None:
        add_services(acme, 1001)
        admin = member("admin")
        for q, prefix in (("*/yy-*", "yy"), ("acme/zz-* !acme/zz-c", "zz")):
            for name in ("a", "b"):
                factories.repository(acme.session, acme.organization, f"acme/{prefix}-{name}", enabled=False)
            page = admin.press(admin.open("/repositories", q=q), "Enable all 2")
            assert f"acme/{prefix}-b private Enabled" in words(page)
            acme.session.expire_all()
            assert acme.session.query(Repository).filter_by(enabled=False).count() == 1001

    def test_repositories_that_match_a_pattern_are_enabled(self, member: Enter, acme: Scene) -> None:
        for name in ("web-a", "web-b", "lib"):
            factories.repository(acme.session, acme.organization, f"acme/{name}", enabled=False)
        admin = member("admin")
        page = admin.open("/repositories", q="acme/web-* !acme/web-b")
        assert ("acme/web-a" in page.links, "acme/web-b" in page.links) == (True, False)
        page = admin.press(page, "Enable it")
        assert "acme/web-a private Enabled" in words(page)
        assert "2 repositories are not enabled." in words(admin.open("/repositories"))
        assert admin.open("/repositories", q="a//*").status == 422

    def test_repositories_filter_by_the_address(self, member: Enter) -> None:
        viewer = member("viewer")
        assert "acme/web" not in viewer.open("/repositories", q="api").links
        assert "No repository matches" in viewer.open("/repositories", state="frozen").text

    def test_repository_page_watches_a_branch(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(admin.open(f"/repositories/{acme.repositories[0].id}"), "Watch", name="release/1.2")
        assert "The branch is watched from now on." in page.text
        assert "release/1.2" in page.links
        again = admin.press(page, "Watch", name="release/1.2")
        assert again.status == 409
        assert admin.press(page, "Watch", name="").status in {400, 422}
        page = admin.press(page, "Save", auto_watch="release/*, hotfix/*")
        assert page.form("Save").fields["auto_watch"] == "release/*, hotfix/*"
        assert admin.press(page, "Save", auto_watch="release/[").status == 422

    def test_branches_filter_by_light(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        assert "acme/web:main" in viewer.open("/branches", light="green").links
        assert "No branch matches" in viewer.open("/branches", light="red").text


class TestStops:
    @pytest.fixture
    def permitted(self, acme: Scene) -> Scene:
        """Return acme, whose App may write rules; an administrator of acme/web has authorised it."""
        may = "UPDATE installations SET permissions = permissions || CAST(:may AS jsonb)"
        acme.session.execute(text(may), {"may": _MAY})
        acme.session.execute(text("UPDATE repositories SET rulesets_authorized_at = now() WHERE name = 'web'"))
        return acme

    @pytest.mark.parametrize("path", ["/branches", "/enforcement/setup"])
    def test_page_counts_what_can_be_stopped_and_says_what_to_do(
        self, member: Enter, permitted: Scene, path: str
    ) -> None:
        admin = member("admin")
        page = admin.open(path)
        shown = words(page)
        assert "1 of 2 branches can be stopped at once" in shown
        assert "1 cannot: No administrator of the repository has authorised this service" in shown
        assert (page.links.get("Set up the rules") == "/enforcement/setup") is (path == "/branches")
        permitted.session.execute(text("UPDATE repositories SET rulesets_authorized_at = now()"))
        assert "All 2 branches can be stopped at once" in words(admin.open(path))

    def test_page_of_a_branch_says_what_is_missing_for_a_stop(self, member: Enter, permitted: Scene) -> None:
        viewer = member("viewer")
        assert "Stop at oncePossible" in words(viewer.open(f"/branches/{permitted.web.id}"))
        assert "Stop at onceNo administrator" in words(viewer.open(f"/branches/{permitted.api.id}"))


class TestBranch:
    def test_branch_shows_findings_and_who_can_bypass(self, member: Enter, acme: Scene) -> None:
        branch = factories.branch(acme.session, acme.repositories[0], "old")
        factories.branch_enforcement(acme.session, branch, "red")
        page = member("viewer").open(f"/branches/{branch.id}")
        assert "Does not block" in page.text
        assert "Critical" in page.text
        assert "Changing branches needs the role member." in words(page)

    def test_branch_is_unwatched_unless_frozen(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(admin.open(f"/branches/{acme.web.id}"), "Stop watching main")
        assert "The branch is no longer watched." in page.text
        factories.freeze(acme.session, acme.organization, [acme.api])
        frozen = admin.open(f"/branches/{acme.api.id}")
        assert "1 freeze covers it: Release under way" in words(frozen)
        assert "A frozen branch stays watched: lift its freezes first." in words(frozen)
        assert "Stop watching main" not in frozen.text

    def test_branch_allows_no_exceptions(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(admin.open(f"/branches/{acme.web.id}"), "Allow no exceptions")
        assert "The setting is saved." in page.text
        assert "Exceptions Not possible" in words(page).replace("ExceptionsNot", "Exceptions Not")

    def test_branch_verifies_until_the_light_is_newer(self, member: Enter, acme: Scene) -> None:
        factories.installation(acme.session, acme.organization)
        admin = member("admin")
        page = admin.press(admin.open(f"/branches/{acme.web.id}"), "Verify now")
        assert "Verifying the rules now" in page.text
        assert f'hx-get="/branches/{acme.web.id}/doctor?since=' in page.answer.text
        part = admin.open(f"/branches/{acme.web.id}/doctor")
        assert "<html" not in part.answer.text
        assert "data-live" not in part.answer.text

    def test_members_see_no_action_of_administrators(self, member: Enter, acme: Scene) -> None:
        page = member("member").open(f"/branches/{acme.web.id}")
        assert "Verify now" in page.text
        assert "Write the checks again" not in page.text
        assert "Set the rule up" not in page.links


class TestSetup:
    def test_setup_needs_an_administrator(self, member: Enter) -> None:
        page = member("member").open("/enforcement/setup")
        assert "Setting rules up needs the role admin." in words(page)
        assert "Show the plan" not in page.text

    def test_setup_shows_why_it_cannot_plan(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/enforcement/setup"), "Show the plan")
        assert page.status >= 400
        assert "There is a problem" in page.text

    def test_diff_names_the_kind_of_each_line(self) -> None:
        text = "--- before\n+++ after\n@@ -1 +1 @@\n-old\n+new\n same"
        assert diff_lines(text) == [("place", "@@ -1 +1 @@"), ("remove", "-old"), ("add", "+new"), ("", " same")]


def example(name: str) -> Any:
    """Return an example of the contract as a service returns it: with names of Python, but for GitHub's own JSON."""
    shown = load_contract().document["components"]["examples"][name]["value"]

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {snake_case(key): each if key in {"before", "after"} else named(each) for key, each in value.items()}

    return named(shown)


class TestSetupAtGitHub:
    @pytest.fixture
    def set_up(self, monkeypatch: pytest.MonkeyPatch, acme: Scene) -> list[tuple[Any, str, bool]]:
        """Have the plan of the contract's example, and note what is requested."""
        factories.installation(acme.session, acme.organization)
        requested: list[tuple[Any, str, bool]] = []

        def answer(_uow: object, scope: Any, mode: str, *, forbid_deletion: bool) -> Any:
            requested.append((scope, mode, forbid_deletion))
            return example("EnforcementSetupPlanned" if mode == "plan" else "EnforcementSetupApplied")

        monkeypatch.setattr(setup_plans, "set_up", answer)
        return requested

    def test_plan_is_shown_as_a_difference_and_applied(
        self, member: Enter, set_up: list[tuple[Any, str, bool]]
    ) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/enforcement/setup"), "Show the plan", repository="acme/web")
        assert "1 ruleset would change" in page.text
        assert "Create in acme" in page.text
        assert "<ins>+{</ins>" in page.answer.text
        page = admin.press(page, "Write it at GitHub")
        assert "Every ruleset is in place already." in page.text
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        assert set_up == [(scope, "plan", False), (scope, "apply", False)]

    def test_rule_against_deletion_is_planned_and_applied(
        self, member: Enter, set_up: list[tuple[Any, str, bool]]
    ) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/enforcement/setup"), "Show the plan", deletion="on")
        admin.press(page, "Write it at GitHub")
        assert [forbids for _scope, _mode, forbids in set_up] == [True, True]

    def test_authorization_leads_to_github_by_a_link(
        self, member: Enter, set_up: list[tuple[Any, str, bool]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin = member("admin")
        plan = admin.press(admin.open("/enforcement/setup"), "Show the plan")

        def refuse(*_: object, **_options: object) -> Any:
            extra = {"authorizationUrl": "https://github.test/authorize?state=s", "expiresAt": factories.now()}
            details = (Detail("/mode", "An administrator must authorise it.", extra=extra),)
            raise ServiceError("admin_authorization_required", "An administrator must authorise it.", details=details)

        monkeypatch.setattr(setup_plans, "set_up", refuse)
        page = admin.press(plan, "Write it at GitHub")
        assert page.links["Go on at GitHub"] == "https://github.test/authorize?state=s"

    def test_branch_shows_snippets_by_purpose(
        self, member: Enter, acme: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(snippets, "snippets", lambda *_: example("EnforcementSnippets"))
        page = member("viewer").open(f"/branches/{acme.web.id}")
        assert "Require the check" in page.text
        assert "GitHub CLI" in page.text
