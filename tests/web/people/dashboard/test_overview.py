"""`/`: the overview, and the steps up to the first freeze."""

import re
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.enforcement import BranchEnforcement
from models.installations import Installation
from models.repositories import WatchedBranch
from tests import factories
from tests.web.people.conftest import user_of
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.forms import Page, Person


def stop_requiring(acme: Scene, *branches: WatchedBranch) -> None:
    """Have no rule at GitHub require the check of branches any more."""
    for branch in branches:
        found = acme.session.get_one(BranchEnforcement, branch.id)
        found.light, found.required, found.own_rule, found.decisive_check = "red", False, False, None
    acme.session.flush()


def primary(page: Page) -> list[str]:
    """Return the addresses of the primary buttons."""
    return re.findall(r'class="button" href="([^"]+)"', page.answer.text)


class TestOverview:
    def test_overview_says_in_one_sentence_what_is_frozen(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        assert viewer.open("/").title == "Nothing is frozen"
        factories.freeze(acme.session, acme.organization, [acme.web])
        assert viewer.open("/").title == "1 of 2 branches is frozen"
        factories.freeze(acme.session, acme.organization, [acme.web, acme.api])
        assert viewer.open("/").title == "All 2 branches are frozen"

    def test_overview_shows_a_freeze_with_its_progress(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web], reason="Database migration")
        viewer = member("viewer")
        page = viewer.open("/")
        assert "Database migration The whole organisation · by" in words(page)
        assert "Checks written: 0 of 1 branch" in words(page)
        assert 'data-live="1"' in page.answer.text
        factories.freeze(acme.session, acme.organization, reason="Without branches")
        target = factories.target(acme.session, freeze, acme.api, state="failed")
        assert "Checks of 1 of 2 could not be written" in words(viewer.open("/"))
        target.state = "applied"
        acme.session.flush()
        assert "Checks written: 1 of 2 branches" in words(viewer.open("/overview"))

    def test_overview_rests_once_checks_are_written(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization)
        factories.target(acme.session, freeze, acme.web, state="applied")
        part = member("viewer").open("/overview")
        assert "The branch is blocked" in words(part)
        assert 'data-live="20"' in part.answer.text
        assert "<html" not in part.answer.text

    def test_overview_names_the_next_window(self, member: Enter, acme: Scene) -> None:
        schedule = factories.schedule(acme.session, acme.organization)
        starts_at = factories.now() + timedelta(hours=30)
        factories.occurrence(acme.session, schedule, starts_at=starts_at)
        assert "The next window, Weekends, begins in 30 hours" in words(member("viewer").open("/"))

    def test_viewer_sees_no_button_that_would_be_refused(self, member: Enter, acme: Scene) -> None:
        factories.freeze(acme.session, acme.organization, [acme.web], reason="Migration")
        shown = {role: words(member(role).open("/")) for role in ("viewer", "member")}
        assert "Start a freeze" in shown["member"].partition("In force")[0]
        assert "Lift: Migration" in shown["member"]
        assert "Start a freeze" not in shown["viewer"].partition("In force")[0]
        assert "Lift: Migration" not in shown["viewer"]


class TestOnboarding:
    def test_first_visit_leads_from_an_organization_to_github(self, ada: Person) -> None:
        page = ada.open("/")
        assert page.title == "First steps"
        assert "0 of 6 steps done" in page.text
        page = ada.press(page, "Create organisation", name="Acme")
        assert "Your organisation has been created. You are its owner." in page.text
        assert "1 of 6 steps done" in page.text
        assert page.links["Connect GitHub"] == "/installed"

    def test_suspended_app_has_its_own_words_and_way_out(self, member: Enter, acme: Scene) -> None:
        owner = member("owner")
        [found] = acme.session.scalars(select(Installation))
        found.state = "suspended"
        acme.session.flush()
        steps = owner.open("/onboarding")
        assert "The GitHub App is suspended in acme. An owner must unsuspend it at GitHub." in words(steps)
        assert "Install the GitHub App" not in words(steps)
        connection = owner.open(steps.links["See the connection"])
        assert "The App is suspended in acme" in words(connection)
        assert "uninstalled" not in words(connection)
        assert connection.links["unsuspend it at GitHub"].endswith(f"/settings/installations/{found.id}")
        for path in ("/attention", f"/branches/{acme.web.id}"):
            assert "suspended" in words(owner.open(path)), path

    def test_overview_names_the_next_step_until_the_first_freeze(self, member: Enter, acme: Scene) -> None:
        owner = member("owner")
        assert "Next: Start the first freeze. 5 of 6 first steps are done." in words(owner.open("/"))
        page = owner.open("/onboarding")
        assert page.links["Start a freeze"] == "/freezes/new"
        factories.freeze(acme.session, acme.organization, [acme.web])
        assert "Next:" not in owner.open("/").text
        assert "Everything is done." in owner.open("/onboarding").text

    def test_steps_stay_the_first_page_until_a_branch_blocks(self, member: Enter, acme: Scene) -> None:
        stop_requiring(acme, acme.web, acme.api)
        page = member("admin").open("/")
        assert page.title == "First steps"
        assert page.links["Set up the rules"] == "/enforcement/setup"
        factories.branch_enforcement(acme.session, factories.branch(acme.session, acme.repositories[0], "next"))
        assert member("owner").open("/").title != "First steps"

    def test_frozen_branches_that_do_not_block_are_said_before_the_steps(self, member: Enter, acme: Scene) -> None:
        stop_requiring(acme, acme.web, acme.api)
        factories.freeze(acme.session, acme.organization, [acme.web])
        shown = words(member("admin").open("/"))
        assert "First steps" not in shown
        assert shown.index("not blocked") < shown.index("Let freezes block")

    def test_next_step_is_the_only_primary_button(self, member: Enter, acme: Scene) -> None:
        assert primary(member("admin").open("/")) == ["/freezes/new"]
        stop_requiring(acme, acme.web)
        assert primary(member("owner").open("/")) == ["/enforcement/setup"]

    def test_step_that_the_role_cannot_do_names_who_can(self, member: Enter, acme: Scene) -> None:
        page = member("viewer").open("/onboarding")
        assert "Ask an owner or admin of Acme to do this step." in words(page)
        assert "Start a freeze" not in page.links

    def test_person_without_an_active_organization_chooses_one(self, ada: Person, session: Session) -> None:
        for name in ("Acme", "Globex"):
            factories.membership(session, factories.organization(session, name), user_of(session))
        assert ada.open("/").links["Choose one of your organisations"] == "/settings/account"


def test_pages_without_rows_lead_on(member: Enter) -> None:
    admin = member("admin")
    assert admin.open("/").links["Plan a freeze"] == "/freezes/new?repeats=weekly"
    assert admin.open("/pulls").links["See what is frozen"] == "/freezes"
