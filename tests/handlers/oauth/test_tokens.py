"""The token endpoint: codes and refresh tokens, and what becomes of a grant whose secrets are used again."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.oauth import OAuthGrant
from models.organizations import User
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.oauth.requests import Client, tool


def grant_of(session: Session) -> OAuthGrant:
    """Return the one grant, as it is now."""
    return session.scalars(select(OAuthGrant).execution_options(populate_existing=True)).one()


class TestConnection:
    def test_connected_client_acts_as_its_person_at_the_mcp_entrance(
        self, session: Session, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        tokens = client.connect(person, acme.id, "freeze:read")
        assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "freeze:read")
        token = tokens["access_token"]
        assert tool(client.http, token, "svc_list_freezes").code is None
        refusal(Caller(client.http, token).get("/v1/freezes"), 401, "invalid_token")
        grant = grant_of(session)
        assert (grant.user_id, grant.organization_id, grant.scopes) == (ada.id, acme.id, ["freeze:read"])
