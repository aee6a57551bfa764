"""Organisations whose administrators connect workspaces of the simulated Slack, and the job that keeps tokens."""

from dataclasses import dataclass, field

import httpx
import pytest
from sqlalchemy import select

from app.database import WORKER_ROLE
from integrations.slack import Slack, SlackSettings
from models.slack import SlackConnection
from rules.access.permissions import SYSTEM
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.tokens import new_session_token, token_hash
from services.core.unit_of_work import Caller as UnitCaller
from services.core.unit_of_work import UnitOfWorkFactory
from services.slack.links import issue_link
from services.slack.tokens import renew_tokens
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tools.fake_slack import FakeSlack, Handle

CONNECTION, CLAIM, URL = "/v1/slack", "/v1/slack/claim", "/v1/slack/install-url"
SUBSCRIPTIONS, LINK = "/v1/slack/subscriptions", "/v1/slack/link"
ACCESS = "/api/oauth.v2.access"
"""Where Slack exchanges codes and refresh tokens."""


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Slack, and what people of our organisations do there."""

    slack: FakeSlack
    jobs: UnitOfWorkFactory

    def back(
        self, caller: Caller, user: str = "U0ADA", *, everywhere: bool = False, team: str | None = None
    ) -> dict[str, str]:
        """Install the app as a person of Slack at a new URL, and return what Slack sends back."""
        answer = answered(caller.get(URL, **({"team": team} if team else {})))
        return self.slack.install(answer["url"], user, everywhere=everywhere)

    def connect(self, caller: Caller, user: str = "U0ADA", *, team: str | None = None) -> httpx.Response:
        """Connect the workspace of a person of Slack."""
        return caller.post(CLAIM, self.back(caller, user, team=team))

    def work(self) -> None:
        """Refresh and revoke all tokens that are due."""
        while renew_tokens(self.jobs):
            pass

    def link_token(self, tenant: Tenant, slack_user: str = "U0ADA") -> str:
        """Return the token in the link that a person of Slack gets."""
        query = select(SlackConnection).where(SlackConnection.organization_id == tenant.id)
        tenant.session.expire_all()
        with self.jobs.open(UnitCaller(tenant.id, SYSTEM, "slack")) as uow:
            connection = tenant.session.scalars(query.where(SlackConnection.removed_at.is_(None))).one()
            url = issue_link(uow, connection, slack_user, "ada")
        return url.partition("token=")[2]


@dataclass(frozen=True, slots=True)
class SignedIn(Caller):
    """A member with a session token, as browsers have it, and with a token of the API."""

    jwt: Caller = field(kw_only=True)
    id: str = field(kw_only=True)


def signed_in(tenant: Tenant, role: str) -> SignedIn:
    """Return a new member with this role, signed in."""
    user, token = factories.user(tenant.session, role.title()), new_session_token()
    factories.membership(tenant.session, tenant.organization, user, role)
    factories.login(tenant.session, user, tenant.organization, token_hash=token_hash(token))
    jwt = Caller(tenant.http, factories.session_token(tenant.session, user, tenant.organization))
    return SignedIn(tenant.http, token, jwt=jwt, id=user.id)


@pytest.fixture
def workspaces(
    slack: FakeSlack, served_fake_slack: Handle, database: str, clock: MovableClock, wakeups: RecordedWakeups
) -> Workspaces:
    settings = slack.settings
    client = Slack(
        SlackSettings(
            settings.client_id,
            settings.client_secret,
            (settings.signing_secret,),
            url=served_fake_slack.base_url,
        )
    )
    ports = Ports(SecretKey(factories.SECRET_KEY.encode()), WebOrigin("http://127.0.0.1:8080"), client)
    return Workspaces(slack, UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports))
