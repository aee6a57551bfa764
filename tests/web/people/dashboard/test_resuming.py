"""A session that ends in a form: the person signs in at the place, and finds the form filled in. Nothing is sent."""

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.identity import Invitation
from models.organizations import LoginSession
from tests import factories
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.forms import Page, Person
from web.resuming import read_kept

REASON = 'Database migration "until" Friday <b>'


@pytest.fixture
def admin(member: Enter) -> Person:
    return member("admin")


def end_sessions(session: Session) -> None:
    """End every session, as signing out everywhere in another browser does."""
    session.execute(update(LoginSession).values(revoked_at=factories.now()))
    session.flush()


def signed_in_again(person: Person, page: Page) -> Page:
    """Sign in at the place, and go back to the form, as a script does by itself."""
    page = person.press(page, "Sign in", email="admin@example.test", password=PASSWORD)
    assert page.title == "You are signed in again"
    return person.press(page, "Back to your form")


class TestResuming:
    def test_form_is_filled_in_again_after_the_sign_in_and_not_sent(self, admin: Person, acme: Scene) -> None:
        fields = {"scope": "glob", "patterns": "acme/*\n!acme/api", "reason": REASON, "exceptions": ""}
        fields |= {"ends_at": "2099-01-05T08:00", "repeats": "weekly", "starts_at": "2099-01-02T18:00"}
        page = admin.press(admin.open("/freezes/new"), "Show what it covers", **fields)
        end_sessions(acme.session)
        asked = admin.press(page, "Plan the freeze", **fields)
        assert (asked.status, asked.title) == (401, "Sign in")
        assert "what you entered is kept" in words(asked)
        page = signed_in_again(admin, asked)
        assert "Check what you had entered, and send it." in words(page)
        shown = next(form for form in page.forms if form.action == "/freezes/new").fields
        assert {name: shown.get(name, "") for name in fields} == fields
        assert "<b>" not in page.answer.text
        assert acme.session.scalars(select(Freeze)).all() == []

    def test_resumed_form_is_sent_under_the_new_sign_in(self, admin: Person, acme: Scene) -> None:
        page = admin.open("/settings/members")
        end_sessions(acme.session)
        page = signed_in_again(admin, admin.press(page, "Invite", email="grace@example.test", role="viewer"))
        form = page.form("Invite")
        assert (form.fields["email"], form.fields["role"]) == ("grace@example.test", "viewer")
        assert "The invitation has been sent." in admin.press(page, "Invite").text
        assert [row.role for row in acme.session.scalars(select(Invitation))] == ["viewer"]

    def test_form_about_one_thing_of_several_is_found_again(self, admin: Person, acme: Scene, member: Enter) -> None:
        member("member")
        member("viewer")
        page = admin.open("/settings/members")
        end_sessions(acme.session)
        page = signed_in_again(admin, admin.press(page, "Change the role of Member", role="admin"))
        assert page.form("Change the role of Member").fields["role"] == "admin"
        assert page.form("Change the role of Viewer").fields["role"] == "viewer"

    def test_form_of_a_page_with_parameters_is_found_again(self, admin: Person, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web])
        page = admin.open(f"/freezes/{freeze.id}/extend")
        end_sessions(acme.session)
        page = signed_in_again(admin, admin.press(page, "Change the end", ends_at="2099-01-04T09:00"))
        assert page.form("Change the end").fields["ends_at"] == "2099-01-04T09:00"

    def test_wrong_password_keeps_the_form(self, admin: Person, acme: Scene) -> None:
        page = admin.open("/freezes/new")
        end_sessions(acme.session)
        asked = admin.press(page, "Start the freeze", reason=REASON)
        asked = admin.press(asked, "Sign in", email="admin@example.test", password="not that one")
        assert asked.status == 401
        shown = signed_in_again(admin, asked).form("Start the freeze").fields
        assert shown["reason"] == REASON

    def test_form_in_a_browser_without_its_session_is_resumed(self, admin: Person) -> None:
        page = admin.open("/freezes/new")
        admin.client.cookies.delete("session")
        page = signed_in_again(admin, admin.press(page, "Start the freeze", reason=REASON))
        assert page.form("Start the freeze").fields["reason"] == REASON

    def test_form_of_an_earlier_sign_in_is_resumed(self, admin: Person, acme: Scene) -> None:
        page = admin.open("/freezes/new")
        admin.client.cookies.delete("session")
        admin.sign_in("admin@example.test", PASSWORD)
        asked = admin.press(page, "Start the freeze", reason=REASON)
        assert (asked.status, asked.title) == (403, "You are signed in again")
        shown = admin.press(asked, "Back to your form").form("Start the freeze").fields
        assert shown["reason"] == REASON
        assert acme.session.scalars(select(Freeze)).all() == []

    def test_form_of_another_site_is_not_kept(self, admin: Person) -> None:
        form = admin.open("/freezes/new").form("Start the freeze")
        for headers in ({"Origin": "https://evil.test"}, {}):
            answer = admin.client.post("/freezes/new?resume=1", data={**form.fields, "reason": REASON}, headers=headers)
            assert (answer.status_code, REASON in answer.text) == (403, False)

    def test_secrets_are_not_kept(self, admin: Person, acme: Scene) -> None:
        page = admin.open("/settings/profile")
        end_sessions(acme.session)
        form = next(each for each in page.forms if any("password" in name for name in each.fields))
        secrets = {name: PASSWORD for name in form.fields if "password" in name}
        answer = admin.send(form, "", **secrets)
        assert answer.status_code in {303, 401}
        assert PASSWORD not in answer.text

    @pytest.mark.parametrize("kept", ["", "{", "[1]", '[["a"]]', '{"a": 1}', '[["do", 3]]'])
    def test_unreadable_text_is_nothing_that_was_kept(self, kept: str) -> None:
        assert read_kept(kept) == []


class TestAsking:
    @pytest.mark.parametrize(
        ("path", "question"),
        [
            ("/settings/members", "Member loses access at once"),
            ("/settings/keys", "What uses the key is refused at once."),
            ("/settings/calendars", "The address cannot be had back."),
        ],
    )
    def test_page_says_what_follows_before_it_takes_away(
        self, admin: Person, member: Enter, path: str, question: str
    ) -> None:
        member("member")
        admin.press(admin.open("/settings/keys"), "Create key", name="pipeline", scope="freeze:read")
        admin.press(admin.open("/settings/calendars"), "Create feed", name="Team")
        text = admin.open(path).answer.text
        asked = text.partition('<details class="asks">')[2].partition("</details>")[0]
        assert question in " ".join(asked.split())
        assert 'class="danger"' in asked
