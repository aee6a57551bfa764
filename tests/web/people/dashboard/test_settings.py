"""Settings: the organisation and its deletion, members and invitations, API keys, calendar feeds."""

import pytest

from models.organizations import Organization
from tests import factories
from tests.harness.concurrency import at_once
from tests.web.people.dashboard.conftest import Enter, Scene, words


class TestOrganization:
    def test_settings_are_saved(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(
            admin.open("/settings"),
            "Save",
            name="Acme Ltd",
            timezone="Europe/London",
            approval="member",
            self_approval="on",
            check_text="public",
        )
        assert "The settings are saved." in page.text
        assert page.form("Save").fields["timezone"] == "Europe/London"

    def test_unknown_zone_is_refused_at_its_field(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/settings"), "Save", timezone="Mars/Base")
        assert page.status == 422
        assert "#timezone" in page.links.values()

    def test_owner_deletes_the_organization_by_its_name(self, member: Enter, acme: Scene) -> None:
        assert "Delete Acme" not in member("admin").open("/settings").text
        owner = member("owner")
        refused = owner.press(owner.open("/settings"), "Delete Acme", confirmation="acme")
        assert refused.status == 422
        owner.press(owner.open("/settings"), "Delete Acme", confirmation="Acme")
        acme.session.expire_all()
        assert acme.session.get_one(Organization, acme.organization.id).deleted_at is not None

    @pytest.mark.parametrize("page_of", ["", "/members", "/keys", "/calendars", "/webhooks"])
    def test_viewer_sees_no_button_that_would_be_refused(self, member: Enter, page_of: str) -> None:
        page = member("viewer").open(f"/settings{page_of}")
        assert page.status == 200
        assert [button for form in page.forms for button in form.buttons if button[0] == "do"] == []


class TestMembers:
    def test_person_is_invited_and_the_invitation_revoked(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/settings/members"), "Invite", email="grace@example.test")
        assert "The invitation has been sent." in page.text
        shown = admin.press(page, "Show a link")
        assert "It is shown only now" in shown.text
        assert "/invitation?token=" in shown.text
        assert page.questions()[-1] == (
            "Revoke the invitation? Its links stop working. You can invite grace@example.test again."
        )
        page = admin.press(page, "Revoke")
        assert "The invitation has been revoked." in page.text

    def test_role_of_a_member_changes_and_the_member_is_removed(self, member: Enter) -> None:
        member("member")
        admin = member("admin")
        page = admin.open("/settings/members")
        assert "Change the role of Owner" not in words(page)
        page = admin.press(page, "Change the role of Member", role="viewer")
        assert "The role has been changed" in page.text
        page = admin.press(page, "Remove Member")
        assert "The member has been removed." in page.text

    def test_admin_cannot_change_owners(self, member: Enter) -> None:
        member("owner")
        page = member("admin").open("/settings/members")
        assert "Remove Owner" not in words(page)
        assert "owner" not in [button[1] for form in page.forms for button in form.buttons]

    def test_invalid_address_is_refused_at_its_field(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/settings/members"), "Invite", email="nobody")
        assert page.status == 422
        assert "#email" in page.links.values()


class TestApiKeys:
    def test_secret_of_a_key_is_shown_once(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.open("/settings/keys")
        shown = admin.press(page, "Create key", name="pipeline", scope="freeze:read", expires="30")
        assert "svc_live_" in shown.text
        assert "Copy it now: it is not shown again" in shown.text
        page = admin.open("/settings/keys")
        assert "pipeline" in page.text
        assert shown.text.partition("svc_live_")[2][:20] not in page.text
        rotated = admin.press(page, "New secret for pipeline", grace="3600")
        assert "The previous secret works until" in rotated.text
        assert "The key has been revoked." in admin.press(admin.open("/settings/keys"), "Revoke pipeline").text
        assert "pipeline" in admin.open("/settings/keys", state="revoked").text

    def test_key_with_an_unknown_expiry_is_refused(self, member: Enter) -> None:
        admin = member("admin")
        fields = {"name": "pipeline", "scope": "freeze:read", "expires": "99999"}
        page = admin.press(admin.open("/settings/keys"), "Create key", **fields)
        assert "Choose when the key expires." in page.text
        assert "No active key" in admin.open("/settings/keys").text

    def test_key_without_permissions_is_refused(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/settings/keys"), "Create key", name="pipeline")
        assert page.status == 422
        assert "#scopes" in page.links.values()


class TestCalendarFeeds:
    def test_address_of_a_feed_is_shown_once_and_ends(self, member: Enter) -> None:
        admin = member("admin")
        shown = admin.press(admin.open("/settings/calendars"), "Create feed", name="Team")
        assert "/calendars/" in shown.text
        page = admin.open("/settings/calendars")
        assert "of the whole organisation, by Admin" in words(page)
        assert "The feed has ended." in admin.press(page, "End the feed Team").text

    def test_members_end_their_own_feeds_alone(self, member: Enter) -> None:
        admin, other = member("admin"), member("member")
        admin.press(admin.open("/settings/calendars"), "Create feed", name="Team")
        page = other.open("/settings/calendars")
        assert "Team" in page.text
        assert "End the feed Team" not in words(page)


class TestWebhooks:
    def test_webhook_is_added_tested_changed_and_deleted(self, member: Enter) -> None:
        admin = member("admin")
        shown = admin.press(
            admin.open("/settings/webhooks"),
            "Add webhook",
            name="Chat",
            url="https://example.com/hook",
            family="freeze.*",
        )
        assert "whsec_" in shown.text
        page = admin.open(shown.links["I have copied it"])
        page = admin.press(page, "Send a test")
        assert "A test event is on its way." in page.text
        assert "webhook.test" in page.text
        assert "The message is sent again." in admin.press(page, "Send again").text
        assert "Copy it now" in admin.press(page, "New secret").text
        page = admin.press(page, "Save", name="Talk", family="freeze.*", single="window.upcoming", remind_before="15")
        assert page.title.strip() == "Talk"
        page = admin.press(page, "Disable")
        assert "A person disabled it." in page.text
        assert "Events are sent again" in admin.press(page, "Enable").text
        assert "The webhook has been deleted." in admin.press(page, "Delete Talk").text

    def test_webhook_without_a_public_address_is_refused(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/settings/webhooks"), "Add webhook", name="Chat", url="http://localhost")
        assert page.status == 422
        assert {"#url", "#events"} <= set(page.links.values())


class TestNotifications:
    def test_member_chooses_what_mails_are_sent(self, member: Enter) -> None:
        viewer = member("viewer")
        page = viewer.press(viewer.open("/settings/notifications"), "Save", kind="freeze.started", remind_before="30")
        assert "Your choice is saved." in page.text
        assert page.form("Save").fields["remind_before"] == "30"
        refused = viewer.press(page, "Save", remind_before="1")
        assert refused.status == 422
        assert "#remind_before" in refused.links.values()


EDITED = pytest.mark.parametrize(
    ("path", "mine", "theirs"),
    [
        ("/settings", {"name": "Acme Ltd"}, {"approval": "member"}),
        ("/settings/webhooks/{webhook}", {"name": "Talk"}, {"url": "https://example.com/other"}),
        ("/repositories/{repository}", {"auto_watch": "release/*"}, {"auto_watch": "hotfix/*"}),
    ],
)
"""Forms that several people may fill in at the same time, and what two of them enter."""


@pytest.fixture
def ids(acme: Scene) -> dict[str, str]:
    """Return the ids in the addresses of the forms."""
    return {
        "webhook": factories.webhook(acme.session, acme.organization).id,
        "repository": acme.repositories[0].id,
    }


@EDITED
def test_form_does_not_replace_what_another_admin_has_changed_unseen(
    member: Enter, ids: dict[str, str], path: str, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    first, second = member("admin"), member("owner")
    page, other = (person.open(path.format(**ids)) for person in (first, second))
    assert "Someone has changed this" not in second.press(other, "Save", **theirs).text
    refused = first.press(page, "Save", **mine)
    assert refused.status == 412
    assert "Someone has changed this since you opened the form." in refused.text
    assert refused.form("Save").fields.items() >= mine.items()
    assert first.press(refused, "Save", **mine).status == 200


@EDITED
def test_one_of_forms_that_are_sent_at_the_same_time_is_refused(
    member: Enter, ids: dict[str, str], path: str, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    people = (member("admin"), mine), (member("owner"), theirs)
    forms = [(person, person.open(path.format(**ids)).form("Save"), fields) for person, fields in people]
    answers = at_once(
        *[lambda person=person, form=form, sent=sent: person.send(form, "Save", **sent) for person, form, sent in forms]
    )
    assert sorted(each.status_code for each in answers) == [303, 412]
