"""Links of Slack users to people: one-time, of one organisation, and gone with the membership."""

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.identity import OneTimeToken
from models.organizations import Membership
from models.slack import SlackLink
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.slack.conftest import CONNECTION, LINK, Workspaces, signed_in

REQUEST = "/api/auth/slack-link-request"


def linked(session: Session) -> dict[str, str]:
    """Return whose each Slack user is."""
    session.expire_all()
    return {row.slack_user_id: row.user_id for row in session.scalars(select(SlackLink))}


class TestLinkSlackUser:
    def test_slack_user_acts_as_the_person_who_confirms(self, acme: Tenant, workspaces: Workspaces) -> None:
        factories.slack_connection(acme.session, acme.organization)
        ada = signed_in(acme, "viewer")
        token = workspaces.link_token(acme)
        assert ada.jwt.post(LINK, {"token": token}).json() == {"slackUserId": "U0ADA"}
        assert linked(acme.session) == {"U0ADA": ada.id}
        assert ada.jwt.get(CONNECTION).json()["me"] == {"linked": True, "slackUserId": "U0ADA"}
        assert acme.audit() == ["slack.linked"]

    def test_token_is_accepted_once_for_ten_minutes(self, acme: Tenant, workspaces: Workspaces) -> None:
        factories.slack_connection(acme.session, acme.organization)
        body = {"token": workspaces.link_token(acme)}
        issued = acme.session.scalars(select(OneTimeToken)).one()
        assert issued.expires_at - issued.created_at == timedelta(minutes=10)
        assert body["token"].encode() not in issued.token_hash
        assert acme.person("member").post(LINK, body).status_code == 200
        error = refusal(acme.person("owner").post(LINK, body), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == ["/token"]

    def test_later_link_ends_the_one_before(self, acme: Tenant, workspaces: Workspaces) -> None:
        factories.slack_connection(acme.session, acme.organization)
        first, second = workspaces.link_token(acme), workspaces.link_token(acme)
        refusal(acme.person("member").post(LINK, {"token": first}), 422, "invalid_parameter")
        assert acme.person("member").post(LINK, {"token": second}).status_code == 200

    def test_token_of_another_organization_is_refused(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        factories.slack_connection(acme.session, acme.organization)
        body = {"token": workspaces.link_token(acme)}
        refusal(globex.person("owner").post(LINK, body), 422, "invalid_parameter")
        assert acme.person("viewer").post(LINK, body).status_code == 200

    def test_earlier_links_of_person_and_slack_user_end(self, acme: Tenant, workspaces: Workspaces) -> None:
        connection = factories.slack_connection(acme.session, acme.organization)
        ada, grace = signed_in(acme, "member"), signed_in(acme, "member")
        for slack_user, person in (("U0ADA", ada), ("U0GRACE", grace)):
            person.jwt.post(LINK, {"token": workspaces.link_token(acme, slack_user)})
        for _ in range(2):
            assert ada.jwt.post(LINK, {"token": workspaces.link_token(acme, "U0GRACE")}).status_code == 200
        assert linked(acme.session) == {"U0GRACE": ada.id}
        assert acme.audit()[2:] == ["slack.unlinked", "slack.unlinked", "slack.linked"]
        assert connection.lost_at is None

    def test_link_to_a_workspace_that_is_gone_is_refused(self, acme: Tenant, workspaces: Workspaces) -> None:
        connection = factories.slack_connection(acme.session, acme.organization)
        body = {"token": workspaces.link_token(acme)}
        connection.lost_at = factories.now()
        acme.session.flush()
        refusal(acme.person("member").post(LINK, body), 409, "invalid_state")


class TestUnlinkSlackUser:
    def test_link_is_ended_by_its_person(self, acme: Tenant, workspaces: Workspaces) -> None:
        factories.slack_connection(acme.session, acme.organization)
        acme.person("member").post(LINK, {"token": workspaces.link_token(acme)})
        assert acme.person("owner").delete(LINK).status_code == 204
        assert list(linked(acme.session)) == ["U0ADA"]
        assert acme.person("member").delete(LINK).status_code == 204
        assert linked(acme.session) == {}
        assert acme.audit() == ["slack.linked", "slack.unlinked"]

    def test_link_ends_with_the_membership(self, acme: Tenant, globex: Tenant, workspaces: Workspaces) -> None:
        factories.slack_connection(acme.session, acme.organization)
        ada = signed_in(acme, "member")
        ada.jwt.post(LINK, {"token": workspaces.link_token(acme)})
        assert acme.person("admin").delete(f"/v1/members/{ada.id}").status_code == 204
        assert linked(acme.session) == {}
        assert acme.session.get(Membership, (acme.id, ada.id)) is None


class TestGetSlackLinkRequest:
    def test_request_names_slack_user_and_organization_to_members(
        self, acme: Tenant, globex: Tenant, workspaces: Workspaces
    ) -> None:
        connection = factories.slack_connection(acme.session, acme.organization)
        token = workspaces.link_token(acme)
        ada = signed_in(acme, "viewer")
        assert ada.get(REQUEST, token=token).json() == {
            "organization": {"id": acme.id, "name": "Acme"},
            "role": "viewer",
            "team": {"id": connection.team_id, "name": "Acme"},
            "slackUser": {"id": "U0ADA", "name": "ada"},
        }
        refusal(signed_in(globex, "owner").get(REQUEST, token=token), 404, "not_found")
        ada.jwt.post(LINK, {"token": token})
        refusal(ada.get(REQUEST, token=token), 404, "not_found")
