"""Ada at her desk: she installs the App at the simulated GitHub, and claims the installation."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

from integrations.github import GitHub
from models.organizations import User
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.installations import claims, views
from services.overview.alerts import AlertFilters, list_alerts
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.harness.webhook_queue import WebhookQueue
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.oauth import APP_CLIENT_SECRET


@dataclass(slots=True)
class Desk:
    """Ada, who installs and claims, with a webhook queue that is processed on demand."""

    harness: Harness
    webhook_queue: WebhookQueue
    uow_factory: UnitOfWorkFactory

    @classmethod
    def of(cls, harness: Harness) -> "Desk":
        """Return Ada's desk, with an App that may ask who installs it; Ada becomes an owner."""
        session = harness.session
        if session.get(User, str(ADA.id)) is None:
            ada = User(id=str(ADA.id), name=ADA.name, email="ada@example.com", created_at=factories.now())
            session.add(ada)
            session.flush()
            factories.membership(session, harness.organization, ada, "owner")
            session.commit()
        harness.fake_github.settings.setup_url = "http://web.test/installed"
        settings = replace(
            harness.github.settings,
            app_client_id=client_id_of(harness.fake_github.app.id),
            app_client_secret=APP_CLIENT_SECRET,
            web_url=harness.base_url,
        )
        ports = Ports(GitHub(settings), CursorSecret(b"a secret of the tests"), WebOrigin("http://web.test"))
        given = harness.uow_factory
        factory = UnitOfWorkFactory(given.engine, given.clock, given.wakeups, ports)
        return cls(harness, WebhookQueue(harness), factory)

    @property
    def caller(self) -> Caller:
        return Caller(self.harness.organization.id, ADA, "dashboard", BUSINESS, user_id="usr_ada")

    def install(self) -> dict[str, str]:
        """Install the App in acme; returns what GitHub sends back."""
        with self.uow_factory.open(self.caller) as uow:
            url = claims.install_url(uow)["url"]
        answer = requests.get(f"{url}&account=acme", allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))

    def claim(self, back: dict[str, str]) -> int:
        with self.uow_factory.open(self.caller) as uow:
            claimed = claims.claim(uow, int(back["installation_id"]), back["state"], back["code"])
        number: int = claimed["installation_id"]
        return number

    def state(self) -> str:
        with self.uow_factory.open(self.caller) as uow:
            return str(views.status(uow, None)["state"])

    def attention(self) -> list[dict[str, Any]]:
        """Return what needs attention."""
        with self.uow_factory.open(self.caller) as uow:
            return list(list_alerts(uow, AlertFilters(), None, 100).data)
