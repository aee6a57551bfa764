"""`/settings/account`: one's organisations, and what else is signed in."""

from urllib.parse import unquote

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import Membership, Organization
from tests import factories
from tests.web.people.conftest import PASSWORD, Visit, user_of
from tests.web.people.forms import Page, Person
from tests.web.people.test_sign_in import open_sessions
from web.devices import device_label

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


def join(session: Session, name: str, role: str = "member") -> Organization:
    organization = factories.organization(session, name)
    factories.membership(session, organization, user_of(session), role)
    return organization


class TestOrganizations:
    def test_account_page_creates_an_organization_owned_by_the_person(self, ada: Person, session: Session) -> None:
        page = ada.press(ada.open("/settings/account"), "Create organisation", name=" Acme ")
        assert "Your organisation has been created. You are its owner." in page.text
        assert "1 of 6 steps done" in page.text
        organization = session.scalars(select(Organization)).one()
        assert organization.name == "Acme"
        assert factories.audit_actions(session, organization) == ["organization.created"]

    def test_account_page_names_an_organization_and_creates_only_one(self, ada: Person, session: Session) -> None:
        page = ada.open("/settings/account")
        assert "If you leave it empty, it is named after you" in page.text
        ada.press(page, "Create organisation")
        ada.press(page, "Create organisation", name="Another")
        assert [each.name for each in session.scalars(select(Organization))] == ["Ada's organisation"]

    def test_account_page_creates_another_organization_in_the_zone_of_the_browser(
        self, ada: Person, session: Session
    ) -> None:
        join(session, "Acme", "viewer")
        page = ada.open("/settings/account")
        page = ada.press(page, "Create organisation", name="Initech", zone="Europe/Berlin")
        assert "You are its owner." in page.text
        [made] = session.scalars(select(Organization).where(Organization.name == "Initech"))
        assert made.settings["timezone"] == "Europe/Berlin"

    def test_account_page_ignores_a_zone_that_there_is_not(self, ada: Person, session: Session) -> None:
        ada.press(ada.open("/settings/account"), "Create organisation", name="Acme", zone="Mars/Olympus")
        assert session.scalars(select(Organization)).one().settings == {}

    def test_account_page_reports_an_invalid_organization_name_at_its_field(
        self, ada: Person, session: Session
    ) -> None:
        page = ada.press(ada.open("/settings/account"), "Create organisation", name="x" * 101)
        assert page.status == 422
        assert "#name" in page.links.values()
        assert session.scalars(select(Organization)).all() == []

    def test_account_page_switches_between_organizations(self, ada: Person, session: Session) -> None:
        acme, globex = join(session, "Acme", "viewer"), join(session, "Globex", "owner")
        page = ada.open("/settings/account")
        assert "Your role: viewer" in page.text
        assert "Active" not in page.text
        for organization in (acme, globex):
            home = ada.press(ada.open("/settings/account"), f"to {organization.name}")
            assert "You switched organisations." in home.text
            [row] = open_sessions(session)
            assert row.organization_id == organization.id
            answer = ada.client.get("/api/auth/token").json()
            assert answer["organizationId"] == organization.id

    def test_link_about_another_organization_switches_to_it_first(self, ada: Person, session: Session) -> None:
        acme, globex = join(session, "Acme", "owner"), join(session, "Globex", "owner")
        ada.press(ada.open("/settings/account"), "to Acme")
        branches = {each: factories.branch(session, factories.repository(session, each)) for each in (acme, globex)}
        freeze = factories.freeze(session, globex, [branches[globex]], reason="Close of the books")
        asked = ada.open(f"/freezes/{freeze.id}", organization=globex.id)
        assert "This page is about Globex" in asked.text
        assert [row.organization_id for row in open_sessions(session)] == [acme.id]
        page = ada.press(asked, "Switch and open the page")
        assert page.title == "Close of the books"
        assert ada.open(f"/freezes/{freeze.id}", organization=globex.id).title == "Close of the books"

    @pytest.mark.parametrize("path", ["/billing", "/slack"])
    def test_link_to_a_page_outside_of_the_dashboard_switches_too(
        self, ada: Person, session: Session, path: str
    ) -> None:
        globex = join(session, "Globex", "owner")
        join(session, "Acme", "owner")
        ada.press(ada.open("/settings/account"), "to Acme")
        asked = ada.open(path, organization=globex.id)
        assert "This page is about Globex" in asked.text
        page = ada.press(asked, "Switch and open the page")
        assert [row.organization_id for row in open_sessions(session)] == [globex.id]
        assert (page.status, "Globex" in page.text, "Acme" in page.text) == (200, True, False)

    def test_link_of_a_mail_leads_back_after_the_sign_in(self, ada: Person, session: Session) -> None:
        globex = join(session, "Globex", "owner")
        ada.client.cookies.clear()
        page = ada.open("/billing", organization=globex.id)
        assert page.title == "Sign in"
        assert f"organization={globex.id}" in unquote(str(page.answer.url))

    def test_link_about_a_foreign_organization_is_refused(self, ada: Person, session: Session) -> None:
        join(session, "Acme")
        foreign = factories.organization(session, "Globex")
        page = ada.open("/exceptions", organization=foreign.id)
        assert page.status == 404
        assert "Globex" not in page.text

    def test_account_page_hides_left_and_deleted_organizations(self, ada: Person, session: Session) -> None:
        acme, globex = join(session, "Acme"), join(session, "Globex")
        ada.press(ada.open("/settings/account"), "to Acme")
        session.delete(session.get_one(Membership, (acme.id, user_of(session).id)))
        session.flush()
        globex.deleted_at = factories.now()
        session.flush()
        page = ada.open("/settings/account")
        assert "Acme" not in page.text
        assert "Globex" not in page.text
        assert "You do not belong to an organisation yet." in page.text


class TestSessions:
    def test_account_page_ends_the_session_of_another_browser_at_once(
        self, ada: Person, visit: Visit, session: Session
    ) -> None:
        other = visit(**{"User-Agent": FIREFOX})
        other.sign_in("ada@example.test", PASSWORD)
        page = ada.open("/settings/account")
        assert "Firefox on Linux" in page.text
        assert page.questions() == [
            "End the session of Firefox on Linux? It is signed out at once and has to sign in again."
        ]
        page = ada.press(page, "the session of Firefox on Linux")
        assert "The session has been ended." in page.text
        assert other.open("/settings/account").title == "Sign in"
        assert ada.open("/settings/account").title == "Your account"
        assert len(open_sessions(session)) == 1

    def test_ending_the_current_session_signs_out(self, ada: Person, session: Session) -> None:
        [own] = open_sessions(session)
        form = ada.open("/settings/account").form("Create organisation")
        answer = ada.send(form, do="end", session_id=own.id)
        assert ada.open(answer.headers["location"]).title == "Sign in"
        assert ada.session is None
        assert open_sessions(session) == []

    def test_account_page_escapes_client_names(self, ada: Person, visit: Visit) -> None:
        visit(**{"User-Agent": "<script>alert(1)</script>"}).sign_in("ada@example.test", PASSWORD)
        assert "<script>" not in ada.open("/settings/account").answer.text

    def test_account_page_rejects_an_unknown_action(self, ada: Person) -> None:
        form = ada.open("/settings/account").form("Create organisation")
        answer = ada.send(form, do="delete-everything")
        assert answer.status_code == 422
        assert Page(answer).title == "Invalid request"


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Linux; Android 16) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0", "Browser"),
        ("freeze-cli", "freeze-cli"),
        ("curl/8.5.0", "curl"),
        ("", "Unknown client"),
    ],
)
def test_device_label_names_browser_and_system(client: str, name: str) -> None:
    assert device_label(client) == name
